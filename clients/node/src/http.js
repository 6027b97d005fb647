// One request and its answer, over a Unix socket or TCP, in a bounded time. A connection for each: nothing is shared.
import http from "node:http";
import https from "node:https";
import { setTimeout as wait } from "node:timers/promises";
import { Unreachable } from "./said.js";
import { placeOf } from "./settings.js";

// What estop answers here has some hundred bytes.
const ANSWER_MAX = 1024 * 1024;
const QUEUE_FULL_MS = 5;
// Fits into the buffer of every socket.
const AT_ONCE_MAX = 32 * 1024;
// Something between us and estop may not know how to ask for a body.
const UNASKED_MS = 1_000;

/**
 * Status and body of the answer to a POST. Throws `Unreachable` if there is none.
 * @param {import("./settings.js").Settings} to @param {string} path @param {string} body
 * @returns {Promise<{status: number, text: string}>}
 */
export async function exchange(to, path, body) {
  const signal = AbortSignal.timeout(to.timeoutMs);
  for (;;) {
    try {
      return await once(to, path, body, signal);
    } catch (error) {
      const code = /** @type {NodeJS.ErrnoException} */ (error).code;
      // Many ask at once and the queue of the socket is full; the system does not wait for it.
      if (code === "EAGAIN" && !signal.aborted) await wait(QUEUE_FULL_MS);
      else throw new Unreachable(`estop cannot be reached at ${placeOf(to)}: ${why(to, signal, error)}`);
    }
  }
}

/**
 * @param {import("./settings.js").Settings} to @param {string} path @param {string} body @param {AbortSignal} signal
 * @returns {Promise<{status: number, text: string}>}
 */
function once(to, path, body, signal) {
  const bytes = Buffer.from(body);
  const options = { method: "POST", agent: false, signal, headers: headers(to, bytes.length) };
  const base = to.url.pathname.replace(/\/+$/, "");
  const { protocol, port } = to.url;
  const hostname = to.url.hostname.replace(/^\[|\]$/g, "");
  return new Promise((resolve, reject) => {
    const request = to.socket
      ? http.request({ ...options, socketPath: to.socket, path })
      : (protocol === "https:" ? https : http).request({ ...options, hostname, port, path: base + path });
    request.on("error", reject);
    request.on("response", (response) => {
      const answered = read(response).then((text) => resolve({ status: response.statusCode ?? 0, text }), reject);
      // What was not asked for any more is not sent.
      answered.finally(() => request.destroy());
    });
    send(request, bytes);
  });
}

/**
 * estop refuses who may not ask without waiting for the rest, and closes. A write that breaks off on that would lose the
 * refusal, and look like silence: a long body waits until it is asked for. A short one is written at once with the head.
 * @param {http.ClientRequest} request @param {Buffer} bytes
 */
function send(request, bytes) {
  if (bytes.length <= AT_ONCE_MAX) {
    request.end(bytes);
    return;
  }
  const asked = () => request.writable && request.end(bytes);
  const timer = setTimeout(asked, UNASKED_MS);
  request.on("continue", asked);
  request.on("close", () => clearTimeout(timer));
  request.flushHeaders();
}

/** @param {import("./settings.js").Settings} to @param {number} length */
function headers(to, length) {
  return {
    "content-type": "application/json",
    accept: "application/json",
    "content-length": length,
    connection: "close",
    ...(length > AT_ONCE_MAX && { expect: "100-continue" }),
    ...(to.socket && { host: "localhost" }),
    ...(to.key && { authorization: `Bearer ${to.key}` }),
    ...(to.ticket && { "x-estop-ticket": to.ticket }),
  };
}

/** @param {http.IncomingMessage} response */
async function read(response) {
  const parts = [];
  let size = 0;
  for await (const part of response) {
    size += part.length;
    if (size > ANSWER_MAX) throw new Error("the answer is too long to be estop's");
    parts.push(part);
  }
  return Buffer.concat(parts).toString();
}

/** @param {import("./settings.js").Settings} to @param {AbortSignal} signal @param {any} error */
function why(to, signal, error) {
  if (signal.aborted) return `no answer within ${to.timeoutMs / 1000} s`;
  if (error.code === "ENOENT") return "there is no such socket";
  return error.message || error.code || "the connection failed";
}
