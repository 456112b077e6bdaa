import type { TestContext } from "node:test";

import type { Exit, Finished, ProgramOptions, Ready } from "../helpers/program.ts";

/** The runner's own limit is meant for one test: a part holds dozens, on a machine that may be busy. */
export const PART = { timeout: 600_000 } as const;

/** How to serve: the text of a postbackd.toml for a new, empty database. */
export interface ServeOptions {
  readonly toml: string;
}

/** The account that every served database begins with. */
export interface ServedAccount {
  readonly login: string;
  readonly key: string;
  readonly secret: string;
}

/** A daemon that serves a database with one account. */
export interface Served {
  readonly url: string;
  /** The database file; null where the database is on a server. */
  readonly file: string | null;
  /**
   * How many daemons serve it; 1 unless given. What one of several is told of a run, another shows within 2 s; what an
   * address may ask for is counted by each of them, about.
   */
  readonly daemons?: number;
  readonly account: ServedAccount;
  /** Runs a command of the program on the same database, as a process of its own, to its end. */
  readonly cli: (args: readonly string[]) => Promise<Finished>;
  /** The same for a command that is not about a database. */
  readonly command: (args: readonly string[]) => Promise<Finished>;
}

/** A program that was started as a process. */
export interface Started {
  readonly pid: number;
  readonly cwd: string;
  readonly ready: Promise<Ready>;
  readonly exit: Promise<Exit>;
  readonly stdout: string;
  readonly stderr: string;
  kill(signal: NodeJS.Signals): void;
  stop(): Promise<Exit>;
  /** Settles when a line of stderr, past or future, contains the text. */
  says(text: string): Promise<void>;
}

/** What is accepted: the contract is the same, whatever it is that runs. */
export interface Subject {
  readonly name: string;
  /** Serves on a free port of 127.0.0.1 until the test ends. */
  readonly serve: (t: TestContext, options: ServeOptions) => Promise<Served>;
  /** Starts the program as a process; killed after the test. */
  readonly launch: (t: TestContext, args: readonly string[], options?: ProgramOptions) => Started;
  /** Runs a command of the program to its end. */
  readonly run: (
    t: TestContext,
    args: readonly string[],
    options?: ProgramOptions,
  ) => Promise<Finished>;
}
