import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { accessSync, constants, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { connect, createServer } from "node:net";
import { tmpdir } from "node:os";
import { delimiter, join } from "node:path";
import type { TestContext } from "node:test";

import { closeServer, listen } from "../helpers/receiver.ts";

/** A program of the distribution, and the package that brings it. */
export interface PeerProgram {
  /** The name of the command, or the path of a file. */
  readonly program: string;
  readonly debianPackage: string;
}

/** The address of a peer. */
export interface PeerAddress {
  readonly host: string;
  readonly port: number;
}

export interface PeerSetup extends PeerAddress {
  /** Texts by name, written into a folder of the peer. */
  readonly files: Readonly<Record<string, string>>;
  /** Runs in that folder. It has to stay in the foreground, as one process. */
  readonly command: readonly [string, ...string[]];
}

/** A loopback address of this process only: a free port stays free, because no other test listens here. */
export const OWN_ADDRESS = `127.83.${(process.pid >> 8) & 255}.${process.pid & 255}`;

/**
 * Whether all of these programs are installed. If not, the test is skipped; with POSTBACKD_TEST_PEERS=required it
 * fails.
 */
export function areAtHand(t: TestContext, programs: readonly PeerProgram[]): boolean {
  const missing = programs.filter(({ program }) => findProgram(program) === null);
  if (missing.length === 0) return true;
  const names = missing.map(({ program }) => program).join(", ");
  const packages = missing.map(({ debianPackage }) => debianPackage).join(" ");
  const reason = `not installed: ${names}; run 'apt-get install ${packages}'`;
  assert.notEqual(process.env["POSTBACKD_TEST_PEERS"], "required", reason);
  t.skip(reason);
  return false;
}

/** The path of a program, or null if it is not installed. */
export function findProgram(name: string): string | null {
  // Debian installs servers here; the PATH of a user may lack these folders.
  const folders = [...(process.env["PATH"] ?? "").split(delimiter), "/usr/sbin", "/usr/local/sbin"];
  const paths = name.includes("/") ? [name] : folders.map((folder) => join(folder, name));
  return paths.find(isReadable) ?? null;
}

function isReadable(path: string): boolean {
  try {
    accessSync(path, constants.R_OK);
    return true;
  } catch {
    return false;
  }
}

/** Whether this process may listen there: ports below 1024 need a privilege. */
export async function canListen(at: PeerAddress): Promise<boolean> {
  const server = createServer();
  try {
    await listen(server, at);
    return true;
  } catch {
    return false;
  } finally {
    await closeServer(server);
  }
}

/** Starts a peer and waits until it takes connections; it is stopped after the test, and its folder removed. */
export async function startPeer(t: TestContext, setup: PeerSetup): Promise<PeerAddress> {
  const folder = mkdtempSync(join(tmpdir(), "postbackd-peer-"));
  for (const [name, text] of Object.entries(setup.files)) writeFileSync(join(folder, name), text);
  const [name, ...args] = setup.command;
  const program = findProgram(name) ?? name;
  const child = spawn(program, args, { cwd: folder, stdio: ["ignore", "pipe", "pipe"] });
  const end = (): void => void child.kill("SIGKILL");
  process.once("exit", end);
  const said: string[] = [];
  for (const stream of [child.stdout, child.stderr]) {
    stream.setEncoding("utf8").on("data", (text: string) => said.push(text));
  }
  const closed = once(child, "close");
  t.after(async () => {
    end();
    await closed;
    process.off("exit", end);
    rmSync(folder, { recursive: true, force: true });
  });
  const isRunning = (): boolean => child.exitCode === null && child.signalCode === null;
  const isListening = await untilListening(setup, isRunning);
  assert(isListening, `${program} ended at its start and said:\n${said.join("")}`);
  return { host: setup.host, port: setup.port };
}

/** True as soon as a process listens; false if the peer ended before. */
async function untilListening(at: PeerAddress, isRunning: () => boolean): Promise<boolean> {
  for (;;) {
    const socket = connect(at);
    const { promise, resolve } = Promise.withResolvers<boolean>();
    socket.once("connect", () => resolve(true));
    socket.once("error", () => resolve(false));
    const isConnected = await promise;
    socket.destroy();
    if (isConnected || !isRunning()) return isConnected;
  }
}
