// Puts estop before a function: asks before each call, tells after it.
import { randomUUID } from "node:crypto";
import { exitCodeOf, textOf } from "./plain.js";

/** @typedef {import("./client.js").Estop} Estop */
/** @typedef {import("../index.js").GuardOptions} GuardOptions */

/**
 * @param {Estop} estop @param {string} name @param {(...args: any[]) => any} tool @param {GuardOptions} options
 * @returns {(...args: any[]) => any}
 */
export function guarded(estop, name, tool, options) {
  if (typeof name !== "string" || typeof tool !== "function") throw new TypeError("guard(name, function)");
  const { onDenied = "throw" } = options;
  if (onDenied !== "throw" && onDenied !== "return") {
    throw new TypeError(`onDenied must be "throw" or "return", not ${JSON.stringify(onDenied)}`);
  }
  /** @param {any[]} args */
  const begun = (args) => new Call(estop, name, named(args), options);
  if (tool.constructor.name === "GeneratorFunction") {
    throw new TypeError("a generator cannot be guarded: guard the function that reads it to its end");
  }
  if (tool.constructor.name === "AsyncGeneratorFunction") {
    // Pieces of a result, the last of which is the result (AI SDK).
    /** @this {unknown} @param {any[]} args @returns {AsyncGenerator<unknown, void>} */
    return async function* (...args) {
      const call = begun(args);
      if (!(await call.ask())) {
        yield call.denial;
        return;
      }
      let last;
      try {
        for await (const piece of tool.apply(this, args)) yield (last = piece);
      } catch (error) {
        await call.failed(error);
        throw error;
      }
      const told = await call.finished(last);
      if (told !== last) yield told;
    };
  }
  /** @this {unknown} @param {any[]} args */
  return async function (...args) {
    const call = begun(args);
    if (!(await call.ask())) return call.denial;
    let result;
    try {
      result = await tool.apply(this, args);
    } catch (error) {
      await call.failed(error);
      throw error;
    }
    return call.finished(result);
  };
}

/**
 * The same tools, each `execute` behind estop; those without one run elsewhere and stay as they are.
 * @template {Record<string, any>} T
 * @param {Estop} estop @param {T} tools @param {GuardOptions} options @returns {T}
 */
export function guardedTools(estop, tools, options) {
  const wrapped = Object.entries(tools).map(([name, tool]) => {
    if (typeof tool?.execute !== "function") return [name, tool];
    const copy = Object.create(Object.getPrototypeOf(tool), Object.getOwnPropertyDescriptors(tool));
    const execute = guarded(estop, name, tool.execute, options);
    return [name, Object.defineProperty(copy, "execute", { value: execute, enumerable: true })];
  });
  return Object.fromEntries(wrapped);
}

/** One call of a guarded tool. */
class Call {
  id = randomUUID();
  /** @type {Set<string>} */
  warnings = new Set();
  denial = "";

  /** @param {Estop} estop @param {string} tool @param {Record<string, any>} args @param {GuardOptions} options */
  constructor(estop, tool, args, options) {
    this.estop = estop;
    this.tool = tool;
    this.args = args;
    this.options = options;
  }

  /** Whether it may run. Throws, or keeps what is said instead of a result. A run that must end is never only told so. */
  async ask() {
    const verdict = await this.estop.preToolUse(this.tool, this.args, this.id);
    if (!verdict.allowed && this.options.onDenied === "return" && !verdict.end) {
      // What is asked of the model may be said in both.
      this.denial = [...new Set([verdict.reason, verdict.context])].filter(Boolean).join("\n\n");
      return false;
    }
    verdict.orThrow(this.tool);
    this.warned(verdict);
    return true;
  }

  /** What ran cannot be refused, but whoever was stopped meanwhile should know. @param {import("./said.js").Verdict} verdict */
  warned(verdict) {
    for (const text of [verdict.allowed ? null : verdict.reason, verdict.context]) if (text) this.warnings.add(text);
  }

  /** @param {unknown} error */
  async failed(error) {
    const exitCode = exitCodeOf(error);
    const said = exitCode === undefined ? String(error) : `${String(error)}\n${textOf(error)}`;
    await this.estop.postToolUse(this.tool, this.args, said, { failed: true, exitCode, call: this.id });
  }

  /** @param {unknown} result */
  async finished(result) {
    const exitCode = (this.options.exitCode ?? exitCodeOf)(result);
    const outcome = { exitCode: exitCode ?? undefined, call: this.id };
    this.warned(await this.estop.postToolUse(this.tool, this.args, textOf(result), outcome));
    return this.withWarnings(result);
  }

  /** What the model should know goes where it reads. @param {unknown} result */
  withWarnings(result) {
    const said = [...this.warnings].join("\n");
    if (!said) return result;
    if (this.options.onContext) this.options.onContext(said);
    else if (typeof result === "string") return `${result}\n\n${said}`;
    else {
      const lost = "not told to the model: the result is no text; use onContext";
      process.emitWarning(`${this.tool}: ${said} (${lost})`, { type: "EstopWarning" });
    }
    return result;
  }
}

/** Arguments by name: tools take one object; whatever else they take is numbered. @param {any[]} args */
function named(args) {
  const [first] = args;
  const isObject = first !== null && typeof first === "object" && !Array.isArray(first);
  if (isObject) return first;
  return first === undefined ? {} : { args };
}
