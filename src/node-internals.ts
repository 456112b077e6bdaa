/**
 * Everything of Node that the program uses and Node does not document, with the end of each if another version of Node
 * lacks it. {@link checkInternals} runs at each start of a server. Only this file may change when Node does.
 */

import type { ChildProcess, StdioOptions } from "node:child_process";
import type { Server } from "node:http";
import type { Socket } from "node:net";
import { getSystemErrorName } from "node:util";

import { codeOf } from "./domain/error.ts";
import type { CommandLine } from "./domain/task/run.ts";

/** Throws a TypeError if a listening server has not what {@link lengthenQueue} and {@link sendingOf} use. */
export function checkInternals(server: Server): void {
  const handle = handleOf(server);
  const missing = ["listen", "writeQueueSize", "bytesWritten"].filter(
    (name) => handle === null || !(name in handle),
  );
  if (missing.length === 0) return;
  throw new TypeError(`This version of Node.js has no _handle.${missing.join(", _handle.")}.`);
}

/**
 * Sets how many connections the kernel holds until a server accepts them. Node takes the number as an option of listen,
 * which listhen calls without it.
 */
export function lengthenQueue(server: Server, length: number): void {
  const listenAgain: unknown = Reflect.get(handleOf(server) ?? {}, "listen");
  if (typeof listenAgain === "function") Reflect.apply(listenAgain, handleOf(server), [length]);
}

export interface Sending {
  /** Bytes that the kernel took. */
  readonly taken: number;
  /** Bytes that the kernel has not taken yet. */
  readonly unsent: number;
}

/**
 * Returns how far a TCP connection has sent. Node reports a write only when all of it is done, so this reads the socket's
 * handle, as Node does for its timeouts. A socket without a handle sends nothing.
 */
export function sendingOf(socket: Socket): Sending {
  const handle = handleOf(socket);
  const unsent = numberOf(handle, "writeQueueSize");
  return { taken: numberOf(handle, "bytesWritten") - unsent, unsent };
}

function handleOf(owner: Server | Socket): object | null {
  const handle: unknown = Reflect.get(owner, "_handle");
  return typeof handle === "object" ? handle : null;
}

function numberOf(handle: object | null, name: string): number {
  const value: unknown = Reflect.get(handle ?? {}, name);
  return typeof value === "number" ? value : 0;
}

/** The socket of a message, with the HTTP parser that Node gives it. */
export interface ParsedSocket {
  readonly parser?: Record<number, unknown> | null;
  once(event: "close", listener: () => void): unknown;
}

// The place where Node's HTTP parser keeps the function that it calls with each chunk (HTTPParser.kOnBody).
const ON_BODY = 3;

/**
 * Makes Node read on and drop the rest of a body, until the connection is closed. Otherwise everything that follows in
 * the same read costs a call for each chunk; now it takes a fiftieth of that. If the function is not found, each chunk
 * costs its call.
 */
export function dropRest(socket: ParsedSocket): void {
  const { parser } = socket;
  const onBody = parser?.[ON_BODY];
  if (!parser || typeof onBody !== "function" || onBody.name !== "parserOnBody") return;
  parser[ON_BODY] = null;
  // Node uses the parser again for another connection.
  socket.once("close", () => (parser[ON_BODY] = onBody));
}

export interface SpawnOptions {
  readonly command: CommandLine;
  readonly cwd: string;
  /** The whole environment, `NAME=value` each. */
  readonly envPairs: readonly string[];
  readonly stdio: StdioOptions;
}

/**
 * The core of `child_process.spawn`, called directly: it takes the environment as it is, and returns an error
 * immediately instead of an event. The process leads a session of its own. Returns the system's name for the error,
 * null when the process runs.
 */
export function spawnInto(child: ChildProcess, options: SpawnOptions): string | null {
  if (!("spawn" in child) || typeof child.spawn !== "function") {
    throw new TypeError("This version of Node.js has no ChildProcess.prototype.spawn.");
  }
  const { command, cwd, envPairs, stdio } = options;
  const [file] = command;
  try {
    const errno: unknown = Reflect.apply(child.spawn, child, [
      { file, args: [...command], cwd, envPairs, stdio, detached: true },
    ]);
    return typeof errno === "number" && errno !== 0 ? getSystemErrorName(errno) : null;
  } catch (error) {
    // Some errors are returned, others thrown (ENOTDIR, E2BIG, …); here both mean the same.
    return codeOf(error) ?? "UNKNOWN";
  }
}
