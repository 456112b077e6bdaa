import type { TestContext } from "node:test";

import type { Exit, Finished, ProgramOptions, Ready } from "../helpers/program.ts";

/** The runner's own limit is meant for one test, and a part has dozens. */
export const PART = { timeout: 600_000 } as const;

// Posts its task to `input.url` and prints the response.
const CALL = `
  let line = "";
  process.stdin.on("data", (part) => { line += part; }).on("end", async () => {
    const { input: { url } } = JSON.parse(line);
    const response = await fetch(url, { method: "POST", body: line });
    process.stdout.write(await response.text());
  });
`;

/** Types: `echo`; `fail`, which always fails; `call`, whose one run at a time ends when a receiver responds. */
export const TOML = `
[webhooks]
allow = ["127.0.0.1"]

[types.echo]
runner = "echo"

[types.fail]
command = ["sh", "-c", "cat > /dev/null; echo broken >&2; exit 3"]

[types.call]
command = [${JSON.stringify(process.execPath)}, "-e", ${JSON.stringify(CALL)}]
concurrency = 1

[[marketplaces]]
code = "de"
name = "Germany"
currency = "EUR"
`;

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
  /** The database file. */
  readonly file: string;
  readonly account: ServedAccount;
  /** Runs a command of the program on the same database, as its own process, to its end. */
  readonly cli: (args: readonly string[]) => Promise<Finished>;
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

/** How to serve, start and run the program that the contract is accepted from. */
export interface Subject {
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
