import { mkdtempSync, writeFileSync } from "node:fs";
import { join } from "node:path";

import {
  DaemonProcess,
  createAccount,
  createWorker,
  type DaemonStart,
  type NewAccount,
} from "./daemon-process.ts";
import type { Program } from "./program.ts";

// `parked` is a type whose one runner is always busy: what is posted to it stays queued, but for a task
// every two seconds. The log would cost nothing, but fill a pipe that nobody reads.
const CONFIGURATION = `
[log]
level = "warn"

[types.echo]
runner = "echo"

[types.parked]
command = ["sleep", "2"]
concurrency = 1
`;

/** The common parts of all daemons of a script. */
export interface DaemonPlace {
  readonly program: Program;
  /** Each daemon makes its own folder in it. */
  readonly folder: string;
  /** Names a database without anything in it; a file in the daemon's folder unless given. */
  readonly newDatabase?: () => Promise<string>;
}

/** Where a daemon keeps its data. */
export type Engine = "file" | "server";

export function engineOf({ newDatabase }: DaemonPlace): Engine {
  return newDatabase === undefined ? "file" : "server";
}

/** An account and the file of a daemon: what outlives it when it is killed. */
export interface DaemonFile {
  readonly program: Program;
  readonly folder: string;
  /** Absolute path of the database, or its URL. */
  readonly database: string;
  readonly account: NewAccount;
  /** The private addresses that webhooks may go to. */
  readonly allowed: string;
}

/** The parts of a daemon's configuration that differ from the other scripts. */
export interface DaemonSettings {
  /** 127.0.0.1 unless given. */
  readonly allowed?: string;
  /** Added to the file, in TOML. */
  readonly more?: string;
  /** In place of what all scripts have. */
  readonly base?: string;
}

/** Makes a folder with a configuration, and in it a database with one account. */
export async function createDaemonFile(
  place: DaemonPlace,
  settings: DaemonSettings = {},
): Promise<DaemonFile> {
  const { program, newDatabase } = place;
  const { allowed = "127.0.0.1" } = settings;
  const own = configureFolder(place, settings);
  const database = (await newDatabase?.()) ?? join(own, "postbackd.db");
  const account = await createAccount("bench", { program, folder: own, database });
  return { program, folder: own, database, account, allowed };
}

/** Makes a folder with a configuration alone. */
export function configureFolder(
  { folder }: DaemonPlace,
  { base = CONFIGURATION, more = "" }: DaemonSettings,
): string {
  const own = mkdtempSync(join(folder, "daemon-"));
  writeFileSync(join(own, "postbackd.toml"), `${base}${more}`);
  return own;
}

/** Starts a daemon on that file. */
export function startDaemon(file: DaemonFile): Promise<DaemonProcess> {
  return DaemonProcess.start(daemonStart(file));
}

/** How to start one: on a free port, with webhooks allowed where the file says and all else by default. */
export function daemonStart({ program, folder, database, allowed }: DaemonFile): DaemonStart {
  const flags = ["--db", database, "--port", "0", "--allow-target", allowed];
  return { program, folder, flags };
}

/** As {@link createDaemonFile}, with a type for workers, and the token of a worker for it. */
export async function createWorkerFile(
  type: string,
  place: DaemonPlace,
): Promise<{ readonly file: DaemonFile; readonly token: string }> {
  const more = `\n[types.${type}]\nrunner = "worker"\nlease = "30s"\n`;
  const file = await createDaemonFile(place, { more });
  return { file, token: await createWorker({ name: "bench", types: [type] }, file) };
}
