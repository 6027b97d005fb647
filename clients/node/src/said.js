// What estop says: verdicts, and the errors that carry a no.

/** Everything this package throws, except for wrong arguments. */
export class EstopError extends Error {
  /** @param {string} message */
  constructor(message) {
    super(message);
    this.name = new.target.name;
  }
}

/** estop did not answer, and `onUnreachable` is "deny". */
export class Unreachable extends EstopError {}

/** estop answered, and did not do as it was asked. */
export class Refused extends EstopError {
  /** @param {number} status @param {string} code @param {string} detail */
  constructor(status, code, detail) {
    super(`estop answered ${status} (${code}): ${detail}`);
    this.status = status;
    this.code = code;
    this.detail = detail;
  }
}

/** A tool, or a prompt, may not run. */
export class ToolDenied extends EstopError {
  /** @param {string | undefined} tool @param {Verdict} verdict */
  constructor(tool, verdict) {
    super(verdict.reason ?? "estop denied it");
    this.tool = tool;
    this.verdict = verdict;
  }

  get reason() {
    return this.message;
  }
}

/** A tool may not run, and estop asks to end the whole run. */
export class RunEnded extends ToolDenied {}

/** What estop says to a tool call or a prompt. */
export class Verdict {
  /**
   * @param {boolean} allowed
   * @param {{reason?: string | null, context?: string | null, end?: boolean, reached?: boolean}} [more]
   */
  constructor(allowed, { reason = null, context = null, end = false, reached = true } = {}) {
    this.allowed = allowed;
    this.reason = reason;
    this.context = context;
    this.end = end;
    this.reached = reached;
    Object.freeze(this);
  }

  /** Itself, if allowed. @param {string} [tool] */
  orThrow(tool) {
    if (this.allowed) return this;
    throw this.end ? new RunEnded(tool, this) : new ToolDenied(tool, this);
  }
}

/** Only a clear yes is a yes. @param {string} answer */
export function readVerdict(answer) {
  const said = parsed(answer);
  const whole = ["permission", "reason", "context", "end"].every((key) => said && Object.hasOwn(said, key));
  if (!whole) return new Verdict(false, { reason: "what estop answered cannot be read, which is not a yes" });
  const more = { context: said.context || null, end: said.end === true };
  if (said.permission === "allow") return new Verdict(true, more);
  return new Verdict(false, { ...more, reason: said.reason || "estop denied it" });
}

/** Out of a problem document (RFC 9457), if it is one. @param {number} status @param {string} answer */
export function readRefusal(status, answer) {
  const said = parsed(answer);
  if (typeof said?.detail !== "string") return new Refused(status, "unknown", "no explanation was given");
  return new Refused(status, String(said.code), said.detail);
}

/** An object, or null. @param {string} answer */
function parsed(answer) {
  try {
    const said = JSON.parse(answer);
    return typeof said === "object" && !Array.isArray(said) ? said : null;
  } catch {
    return null;
  }
}
