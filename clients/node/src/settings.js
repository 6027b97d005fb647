// Where estop is and who asks: from options, else from the environment.
import { homedir } from "node:os";
import { join } from "node:path";

const DEFAULT_URL = "http://127.0.0.1:4101";
const TIMEOUT_MS = 5_000;

/**
 * @typedef {object} Settings
 * @property {string | undefined} socket The owner's socket; undefined = `url`.
 * @property {URL} url
 * @property {string | undefined} key
 * @property {string | undefined} ticket
 * @property {string | undefined} agent
 * @property {string | undefined} run
 * @property {string | undefined} chosen `onUnreachable` as somebody set it.
 * @property {number} timeoutMs
 */

/**
 * Options come before the environment, the socket of `estop run` before an address set for everything.
 * @param {import("../index.js").EstopOptions} options
 * @param {Record<string, string | undefined>} env
 * @returns {Settings}
 */
export function settings(options, env) {
  /** @param {string} name */
  const of = (name) => env[name] || undefined;
  const key = inAHeader("the key", options.key ?? of("ESTOP_KEY"));
  let { url, socket } = options;
  if (url !== undefined && socket !== undefined) throw new TypeError("give url or socket, not both");
  if (url === undefined && socket === undefined) {
    socket = of("ESTOP_SOCKET");
    url = socket ? undefined : of("ESTOP_ADMIN_URL");
    if (!socket && !url && !key) socket = defaultSocket(env);
  }
  const chosen = options.onUnreachable ?? of("ESTOP_ON_UNREACHABLE");
  if (chosen !== undefined && chosen !== "deny" && chosen !== "allow") {
    throw new TypeError(`onUnreachable must be "deny" or "allow", not ${JSON.stringify(chosen)}`);
  }
  const timeoutMs = options.timeoutMs ?? TIMEOUT_MS;
  if (!(timeoutMs > 0)) throw new TypeError("timeoutMs must be more than 0");
  const ticket = inAHeader("ESTOP_TICKET", of("ESTOP_TICKET"));
  const [agent, run] = [of("ESTOP_AGENT"), of("ESTOP_RUN")];
  // A ticket names agent and run, and estop takes no others beside it.
  const who = ticket
    ? { agent: agent ?? options.agent, run: run ?? options.run }
    : { agent: options.agent ?? agent, run: options.run ?? run };
  return { socket, url: checked(url ?? DEFAULT_URL), key, ticket, ...who, chosen, timeoutMs };
}

/** Inside a run nothing passes without estop; outside of one everything does, unless somebody chose. @param {Settings} to */
export function deniesUnreached(to) {
  return to.chosen ? to.chosen === "deny" : to.run !== undefined || to.ticket !== undefined;
}

/** @param {Settings} to */
export function placeOf(to) {
  return to.socket ?? to.url.href.replace(/\/+$/, "");
}

/** Where `estop serve` has it if nobody says otherwise. @param {Record<string, string | undefined>} env */
function defaultSocket(env) {
  return join(env.XDG_STATE_HOME || join(homedir(), ".local", "state"), "estop", "estop.sock");
}

/** @param {string | URL} text */
function checked(text) {
  const must = `the url must look like ${DEFAULT_URL}`;
  let url;
  try {
    url = new URL(text);
  } catch {
    throw new TypeError(must);
  }
  // Not repeated here: it holds a secret.
  if (url.username || url.password) throw new TypeError("the url must not have a name or a password in it; use key");
  if (!/^https?:$/.test(url.protocol) || url.search || url.hash) throw new TypeError(must);
  return url;
}

/** @param {string} what @param {string | undefined} secret */
function inAHeader(what, secret) {
  const trimmed = secret?.trim() || undefined;
  if (trimmed && !/^[!-~]+$/.test(trimmed)) throw new TypeError(`${what} has characters that no key has (not shown)`);
  return trimmed;
}
