import assert from "node:assert/strict";
import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { readFileSync, readdirSync } from "node:fs";
import { dirname, join } from "node:path";
import { createInterface } from "node:readline";
import type { TestContext } from "node:test";

import { temporaryFolder } from "../helpers/program.ts";

const ROOT = dirname(dirname(import.meta.dirname));

/** A receiver of `examples/receivers` in one language. */
export interface Language {
  readonly name: string;
  /** Its path in the project. */
  readonly file: string;
  /** Succeeds if the language is installed. */
  readonly probe: readonly [string, ...string[]];
  /** The command that runs it. It may build in `folder`, which is empty. */
  command(folder: string): readonly [string, ...string[]];
}

export interface ReceiverProcess {
  /** The address that it logs. */
  readonly url: string;
  /** The contents of its inbox by file name. */
  inbox(): ReadonlyMap<string, Buffer>;
  /** Resolves once it has logged this line so many times. */
  says(line: string, times?: number): Promise<void>;
}

export interface ReceiverSetup {
  readonly command: readonly [string, ...string[]];
  readonly secrets: readonly string[];
  /** Its public base URL; none by default. */
  readonly publicUrl?: string;
}

/** The file of a receiver, absolute. */
export function pathOf({ file }: Language): string {
  return join(ROOT, file);
}

/** The reason why the receiver cannot run here, or false. Throws with POSTBACKD_TEST_PEERS=required. */
export function reasonToSkip({ name, probe }: Language): string | false {
  const [program, ...args] = probe;
  if (spawnSync(program, args).status === 0) return false;
  const reason = `${name} is not installed`;
  assert.notEqual(process.env["POSTBACKD_TEST_PEERS"], "required", reason);
  return reason;
}

/** Starts a receiver as a process of its own on a free port; it is killed when the test ends. */
export async function startReceiverProcess(
  t: TestContext,
  { command, secrets, publicUrl }: ReceiverSetup,
): Promise<ReceiverProcess> {
  const inbox = temporaryFolder(t);
  const [program, ...args] = command;
  const child = spawn(program, args, {
    // The tsconfig.json here maps the package's name.
    cwd: ROOT,
    env: {
      ...process.env,
      WEBHOOK_SECRETS: secrets.join(", "),
      PORT: "0",
      INBOX: inbox,
      PUBLIC_URL: publicUrl,
      NODE_TEST_CONTEXT: undefined,
    },
    stdio: ["ignore", "pipe", "pipe"],
  });
  const exit = once(child, "close");
  t.after(async () => {
    child.kill("SIGKILL");
    await exit;
  });
  const lines = collectLines([child.stdout, child.stderr], exit);
  const address = await lines.next((line) => /http:\/\/127\.0\.0\.1:\d+/.exec(line)?.[0]);
  return {
    url: address,
    inbox: () => readInbox(inbox),
    async says(line, times = 1) {
      let seen = 0;
      await lines.next((each) => {
        if (each.endsWith(line)) seen++;
        return seen === times ? each : undefined;
      });
    },
  };
}

function readInbox(folder: string): ReadonlyMap<string, Buffer> {
  const names = readdirSync(folder).toSorted();
  return new Map(names.map((name) => [name, readFileSync(join(folder, name))]));
}

interface Lines {
  /** The first result of `find` that is not undefined, over all lines from the first. */
  next(find: (line: string) => string | undefined): Promise<string>;
}

function collectLines(streams: readonly NodeJS.ReadableStream[], exit: Promise<unknown>): Lines {
  const lines: string[] = [];
  const watches = new Set<() => void>();
  let hasEnded = false;
  const wake = (): void => watches.forEach((watch) => watch());
  for (const input of streams) {
    createInterface({ input }).on("line", (line) => {
      lines.push(line);
      wake();
    });
  }
  void exit.then(() => {
    hasEnded = true;
    wake();
  });
  return {
    next(find) {
      const { promise, resolve, reject } = Promise.withResolvers<string>();
      let index = 0;
      const watch = (): void => {
        for (; index < lines.length; index++) {
          const found = find(lines[index] ?? assert.fail());
          if (found === undefined) continue;
          watches.delete(watch);
          return resolve(found);
        }
        if (hasEnded) reject(new Error(`It ended, having said:\n${lines.join("\n")}`));
      };
      watches.add(watch);
      watch();
      return promise;
    },
  };
}

const OWN_PACKAGE = import.meta.resolve("../helpers/own-package.ts");

export const TYPESCRIPT: Language = {
  name: "TypeScript",
  file: "examples/receivers/receiver.ts",
  probe: [process.execPath, "--version"],
  command: () => [process.execPath, "--import", OWN_PACKAGE, pathOf(TYPESCRIPT)],
};

export const PYTHON: Language = {
  name: "Python",
  file: "examples/receivers/receiver.py",
  probe: ["python3", "--version"],
  command: () => ["python3", pathOf(PYTHON)],
};

export const GO: Language = {
  name: "Go",
  file: "examples/receivers/receiver.go",
  probe: ["go", "version"],
  command: (folder) => [buildGo(pathOf(GO), folder)],
};

export const PHP: Language = {
  name: "PHP",
  file: "examples/receivers/receiver.php",
  probe: ["php", "--version"],
  command: () => ["php", "-S", "127.0.0.1:0", pathOf(PHP)],
};

/** Builds a program of one file in an empty folder and returns the path of the executable. */
export function buildGo(file: string, folder: string): string {
  const executable = join(folder, "program");
  const { status, stderr } = spawnSync("go", ["build", "-o", executable, file], {
    cwd: folder,
    env: { ...process.env, ...goEnvironment(folder) },
    encoding: "utf8",
  });
  if (status !== 0) throw new Error(`go build failed:\n${stderr}`);
  return executable;
}

/** Go builds with the standard library only, downloads nothing and writes to `folder` only. */
export function goEnvironment(folder: string): Readonly<Record<string, string>> {
  return {
    GOCACHE: join(folder, "cache"),
    GOPATH: join(folder, "path"),
    GOFLAGS: "",
    GO111MODULE: "off",
    GOPROXY: "off",
    GOTOOLCHAIN: "local",
  };
}
