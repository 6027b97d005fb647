/** Asks estop before a tool runs, and tells it what came of it. For frameworks without hooks of their own. */

/** What happens to a tool when estop does not answer. */
export type OnUnreachable = "deny" | "allow";

export interface EstopOptions {
  /** The admin port, e.g. `http://127.0.0.1:4101`. Default: `ESTOP_ADMIN_URL`. */
  url?: string | URL;
  /** An agent's key, or an operator's token. Default: `ESTOP_KEY`. */
  key?: string;
  /** Default: `ESTOP_AGENT`, else `default`. */
  agent?: string;
  /** Default: `ESTOP_RUN`, else the agent's implicit run. */
  run?: string;
  /** The owner's socket. Default: `ESTOP_SOCKET`; without any address the one in the default data directory. */
  socket?: string;
  /** Default: `ESTOP_ON_UNREACHABLE`, else "deny" inside a run and "allow" outside of one. */
  onUnreachable?: OnUnreachable;
  /** How long to wait for an answer; 5000. */
  timeoutMs?: number;
}

/** What estop says to a tool call or a prompt. */
export class Verdict {
  constructor(
    allowed: boolean,
    more?: { reason?: string | null; context?: string | null; end?: boolean; reached?: boolean },
  );
  readonly allowed: boolean;
  /** Why not; or why it is allowed although estop was not reached. */
  readonly reason: string | null;
  /** For the model to read, e.g. that a limit is near. */
  readonly context: string | null;
  /** estop asks to end the whole run. */
  readonly end: boolean;
  /** False: estop did not answer, and `onUnreachable` decided. */
  readonly reached: boolean;
  /** Itself, if allowed; else throws `ToolDenied`. */
  orThrow(tool?: string): this;
}

/** How a tool ended; without `failed` and `exitCode` estop reads it out of the result. */
export interface Outcome {
  failed?: boolean;
  exitCode?: number;
  /** The id given to `preToolUse`. */
  call?: string;
}

/** What a run is for. */
export interface About {
  role?: string;
  attended?: boolean;
  issue?: string;
  branch?: string;
  /** Your own id of the session. */
  session?: string;
  labels?: Record<string, string>;
  /** For this run alone. The key of an agent may only tighten them. */
  limits?: Partial<Record<LimitName, number | "off">>;
}

export type LimitName =
  | "max_iterations"
  | "max_tool_calls"
  | "max_turns"
  | "max_active_duration"
  | "max_sleep_duration";

/** A run as estop shows it. */
export interface RunInfo {
  id: string;
  agent: string;
  run: string | null;
  state: "ACTIVE" | "SLEEPING" | "COMPLETED" | "ESCALATED";
  attended: boolean;
  tripped: boolean | null;
  iterations: number | null;
  tool_calls: number | null;
  turns: number | null;
  active_ms: number | null;
  role: string | null;
  issue: string | null;
  branch: string | null;
  labels: Record<string, string>;
  spent_usd: number;
  tokens: number;
  summary: string | null;
}

export interface GuardOptions {
  /** "throw" `ToolDenied` (default), or "return" the reason as the tool's result, for the model to read. */
  onDenied?: "throw" | "return";
  /** Reads an exit code out of a result. Default: that of a finished process. */
  exitCode?: (result: any) => number | null | undefined;
  /** Takes warnings for the model, which otherwise are put at the end of results that are texts. */
  onContext?: (text: string) => void;
}

/** A connection to estop for one agent, and perhaps one run. */
export class Estop {
  constructor(options?: EstopOptions);
  get agent(): string;
  /** Undefined: the agent's implicit run. */
  get runName(): string | undefined;
  /** For the client of your model, so that its requests belong to the same agent and run. No secrets. */
  get headers(): Record<string, string>;

  /** Asks whether a tool may run. `call` is your id of this call, to be told again afterwards. */
  preToolUse(tool: string, args?: Record<string, any>, call?: string): Promise<Verdict>;
  /** Tells what came of a tool. */
  postToolUse(tool: string, args: Record<string, any>, result: unknown, outcome?: Outcome): Promise<Verdict>;
  /** A person asks something: a turn begins. */
  turn(prompt: string): Promise<Verdict>;
  /** The agent has answered, and waits. */
  turnEnd(lastWords?: string): Promise<Verdict>;

  /**
   * Steps of a run; `run` does the first and the last of them. One that estop refuses throws `Refused`. Undefined: not
   * reached, and `onUnreachable` is "allow".
   */
  start(about?: About): Promise<RunInfo | undefined>;
  activate(): Promise<RunInfo | undefined>;
  sleep(): Promise<RunInfo | undefined>;
  wake(): Promise<RunInfo | undefined>;
  complete(): Promise<RunInfo | undefined>;

  /**
   * Begins a run, or goes on with it, does the work, and completes it. Inside `estop run` the run is the
   * supervisor's: it goes on, and nothing is completed here.
   */
  run<T>(name: string, work: (run: Estop) => T | Promise<T>, about?: About): Promise<T>;

  /** Puts estop before a function, plain, async or an async generator: asks before each call, tells after it. */
  guard<A extends any[], R>(
    name: string,
    tool: (...args: A) => AsyncGenerator<R>,
    options?: GuardOptions,
  ): (...args: A) => AsyncGenerator<R | string>;
  guard<A extends any[], R>(
    name: string,
    tool: (...args: A) => R,
    options: GuardOptions & { onDenied: "return" },
  ): (...args: A) => Promise<Awaited<R> | string>;
  guard<A extends any[], R>(
    name: string,
    tool: (...args: A) => R,
    options?: GuardOptions,
  ): (...args: A) => Promise<Awaited<R>>;

  /** The same tools, each `execute` behind estop (Vercel's AI SDK); those without one stay as they are. */
  guardTools<T extends Record<string, any>>(tools: T, options?: GuardOptions): T;
}

/** Everything this package throws, except for wrong arguments. */
export class EstopError extends Error {
  constructor(message: string);
}

/** estop did not answer, and `onUnreachable` is "deny". */
export class Unreachable extends EstopError {}

/** estop answered, and did not do as it was asked: a run in another state, a wrong key, a wrong name. */
export class Refused extends EstopError {
  constructor(status: number, code: string, detail: string);
  readonly status: number;
  readonly code: string;
  readonly detail: string;
}

/** A tool, or a prompt, may not run. */
export class ToolDenied extends EstopError {
  constructor(tool: string | undefined, verdict: Verdict);
  readonly tool: string | undefined;
  readonly verdict: Verdict;
  get reason(): string;
}

/** A tool may not run, and estop asks to end the whole run. */
export class RunEnded extends ToolDenied {}
