// The client: asks, tells, and moves runs.
import { guarded, guardedTools } from "./guard.js";
import { exchange } from "./http.js";
import { toJson } from "./plain.js";
import { readRefusal, readVerdict, Refused, Unreachable, Verdict } from "./said.js";
import { deniesUnreached, placeOf, settings } from "./settings.js";

// A proxy before estop says so when estop itself does not answer.
const NOT_ESTOP = [502, 504];
const CONFLICT = 409;
const NOT_FOUND = 404;

/** What it has is told in index.d.ts; test/types.ts holds the two against each other. */
export class Estop {
  /** Private: no key gets into a log by way of `console.log`. @type {import("./settings.js").Settings} */
  #to;
  /** Whether estop does not answer, as was said. Shared by all that `run` gives. */
  #outage = { lasts: false };

  /** @param {import("../index.js").EstopOptions} [options] */
  constructor(options = {}) {
    this.#to = settings(options, process.env);
  }

  get agent() {
    return this.#to.agent ?? "default";
  }

  get runName() {
    return this.#to.run;
  }

  get headers() {
    /** @type {Record<string, string>} */
    const named = {};
    if (this.#to.agent) named["x-estop-agent"] = this.#to.agent;
    if (this.#to.run) named["x-estop-run"] = this.#to.run;
    return named;
  }

  // What an agent does.

  /** @param {string} tool @param {Record<string, any>} [args] @param {string} [call] */
  preToolUse(tool, args = {}, call = undefined) {
    return this.#ask("pre-tool-use", { tool, args, call });
  }

  /**
   * @param {string} tool @param {Record<string, any>} args @param {unknown} result
   * @param {import("../index.js").Outcome} [outcome]
   */
  postToolUse(tool, args, result, { failed, exitCode, call } = {}) {
    return this.#ask("post-tool-use", { tool, args, call, result: result ?? "", failed, exit_code: exitCode });
  }

  /** @param {string} prompt */
  turn(prompt) {
    return this.#ask("prompt-submit", { prompt });
  }

  /** @param {string} [lastWords] */
  turnEnd(lastWords) {
    return this.#ask("turn-end", { last_words: lastWords });
  }

  // Steps of a run.

  /** @param {import("../index.js").About} [about] */
  async start(about = {}) {
    const run = { agent: this.agent, run: this.#run(), ...about };
    try {
      return await this.#step("/api/runs", run);
    } catch (error) {
      if (!(error instanceof Refused && error.status === NOT_FOUND)) throw error;
    }
    // The agent is new. Any hook makes it known, and this one does nothing else to a run that has not begun.
    await this.#ask("session-end", {});
    return this.#step("/api/runs", run);
  }

  async activate() {
    return this.#step(this.#path("activate"));
  }

  async sleep() {
    return this.#step(this.#path("sleep"));
  }

  async wake() {
    return this.#step(this.#path("wake"));
  }

  async complete() {
    return this.#step(this.#path("complete"));
  }

  /**
   * @template T
   * @param {string} name @param {(run: any) => T | Promise<T>} work @param {import("../index.js").About} [about]
   * @returns {Promise<T>}
   */
  async run(name, work, about = {}) {
    const inside = this.#bound(name);
    await inside.#begin(about);
    try {
      return await work(inside);
    } finally {
      // What is over cannot be refused, and an error of the work matters more than one of its end.
      await inside.#ask("session-end", {});
    }
  }

  /** @param {string} name @param {(...args: any[]) => any} tool @param {import("../index.js").GuardOptions} [options] */
  guard(name, tool, options = {}) {
    return /** @type {any} */ (guarded(this, name, tool, options));
  }

  /**
   * @template {Record<string, any>} T
   * @param {T} tools @param {import("../index.js").GuardOptions} [options] @returns {T}
   */
  guardTools(tools, options = {}) {
    return guardedTools(this, tools, options);
  }

  // How it is done.

  /** @param {string} run */
  #bound(run) {
    const bound = new Estop();
    // A ticket names its run.
    bound.#to = this.#to.ticket ? this.#to : { ...this.#to, run };
    bound.#outage = this.#outage;
    return bound;
  }

  #run() {
    if (!this.#to.run) throw new TypeError("which run? Give its name: new Estop({ run }), or estop.run(name, …)");
    return this.#to.run;
  }

  /** @param {string} step */
  #path(step) {
    return `/api/runs/${encodeURIComponent(this.agent)}:${encodeURIComponent(this.#run())}/${step}`;
  }

  /**
   * By hook, which also goes on with a run that is open; what it is for (`about`) only a step can say.
   * @param {import("../index.js").About} about
   */
  async #begin(about) {
    if (Object.keys(about).length > 0 && !this.#to.ticket) {
      await this.start(about).catch((error) => {
        // It is there already. Whether it may go on is asked below.
        if (!(error instanceof Refused && error.status === CONFLICT)) throw error;
      });
    }
    const verdict = await this.#ask("session-start", {});
    if (!verdict.allowed && !verdict.reached) throw new Unreachable(verdict.reason ?? "");
    verdict.orThrow();
  }

  /** @param {string} event @param {Record<string, unknown>} body @returns {Promise<Verdict>} */
  async #ask(event, body) {
    // A ticket names both, and nobody can be somebody else beside it.
    const who = this.#to.ticket ? {} : { agent: this.#to.agent, run: this.#to.run };
    let answer;
    try {
      answer = await this.#post(`/api/hooks/${event}`, { ...body, ...who });
    } catch (error) {
      if (error instanceof Unreachable) return this.#unreached(error);
      throw error;
    }
    if (answer.status === 200) return readVerdict(answer.text);
    // estop is there and does not say yes: that is a no, whatever `onUnreachable` is.
    return new Verdict(false, { reason: readRefusal(answer.status, answer.text).message });
  }

  /** @param {string} path @param {Record<string, unknown>} [body] @returns {Promise<any>} */
  async #step(path, body) {
    let answer;
    try {
      answer = await this.#post(path, body);
    } catch (error) {
      if (error instanceof Unreachable && this.#unreached(error).allowed) return undefined;
      throw error;
    }
    if (answer.status === 200 || answer.status === 201) return JSON.parse(answer.text);
    throw readRefusal(answer.status, answer.text);
  }

  /** @param {string} path @param {Record<string, unknown>} [body] */
  async #post(path, body) {
    const answer = await exchange(this.#to, path, body ? toJson(body) : "");
    if (NOT_ESTOP.includes(answer.status)) {
      const said = `what stands before it answered ${answer.status}`;
      throw new Unreachable(`estop cannot be reached at ${placeOf(this.#to)}: ${said}`);
    }
    if (this.#outage.lasts) process.emitWarning("estop answers again", { type: "EstopWarning" });
    this.#outage.lasts = false;
    return answer;
  }

  /** @param {Unreachable} error */
  #unreached(error) {
    const denies = deniesUnreached(this.#to);
    if (!this.#outage.lasts) {
      const what = denies ? "are denied until it answers" : "run WITHOUT its guard until it answers";
      const warning = { type: "EstopWarning", code: "ESTOP_UNREACHABLE" };
      process.emitWarning(`${error.message}; tools ${what} (onUnreachable)`, warning);
    }
    this.#outage.lasts = true;
    const what = denies ? "denied" : "allowed without it";
    return new Verdict(!denies, { reason: `${error.message}; ${what} (onUnreachable)`, reached: false });
  }
}
