// Turns what tools take and give into JSON, the same for the same value: estop compares calls to find loops.
import { createHash } from "node:crypto";

// estop takes bodies of 1 MiB. A command or a question is far shorter; of a whole file its ends and its hash are enough.
const TEXT_MAX = 64 * 1024;
const DEPTH_MAX = 32;

/** The body of a request. What is null or undefined is left out. @param {Record<string, unknown>} body */
export function toJson(body) {
  const kept = Object.entries(body).filter(([, value]) => value !== null && value !== undefined);
  return JSON.stringify(plain(Object.fromEntries(kept)));
}

/** The value in JSON's own types. @param {any} value @param {number} [depth] @returns {unknown} */
export function plain(value, depth = 0) {
  if (typeof value === "string") return shortened(value);
  if (typeof value === "number") return Number.isFinite(value) ? value : String(value);
  if (typeof value === "bigint" || typeof value === "symbol") return String(value);
  if (typeof value === "function") return `<function ${value.name}>`;
  if (value === null || typeof value !== "object") return value;
  if (depth >= DEPTH_MAX) return "…";
  try {
    return plainObject(value, depth + 1);
  } catch {
    // What cannot be shown must not keep a tool from being judged.
    return `<${value.constructor?.name ?? "object"}>`;
  }
}

/** @param {any} value @param {number} depth @returns {unknown} */
function plainObject(value, depth) {
  if (value instanceof Error) return shortened(`${value.name}: ${value.message}`);
  if (ArrayBuffer.isView(value)) {
    return shortened(Buffer.from(value.buffer, value.byteOffset, value.byteLength).toString());
  }
  if (typeof value.toJSON === "function") return plain(value.toJSON(), depth);
  if (Array.isArray(value)) return value.map((item) => plain(item ?? null, depth));
  if (value instanceof Set) return plain([...value], depth);
  const pairs = value instanceof Map ? [...value] : Object.entries(value);
  return Object.fromEntries(pairs.map(([key, item]) => [String(key), plain(item, depth)]));
}

/** The text, or its two ends with the hash of the whole. Half a character has no bytes. @param {string} text */
export function shortened(text) {
  if (text.length <= TEXT_MAX) return Buffer.from(text).toString();
  const digest = createHash("sha256").update(text).digest("hex");
  const half = TEXT_MAX / 2;
  const left = `… ${text.length - 2 * half} characters left out, sha256 ${digest} …`;
  return Buffer.from(`${text.slice(0, half)}\n${left}\n${text.slice(-half)}`).toString();
}

/** What a finished process ended with; undefined for everything else. @param {any} result */
export function exitCodeOf(result) {
  if (!result || typeof result !== "object") return undefined;
  const codes = "stdout" in result ? [result.exitCode, result.status, result.code] : [result.exitCode];
  return codes.find(Number.isInteger);
}

/** What a finished process said; everything else as it is. @param {any} result */
export function textOf(result) {
  if (exitCodeOf(result) === undefined || !("stdout" in result)) return result ?? "";
  return [result.stdout, result.stderr].filter(Boolean).map(String).join("");
}
