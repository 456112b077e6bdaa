import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import type { TestContext } from "node:test";

import { createTestAccount } from "../helpers/daemon.ts";
import { startProgram, temporaryFolder, type Program } from "../helpers/program.ts";
import { taskClient, type TaskClient } from "../helpers/task-client.ts";
import { type HeldProcesses, node } from "../run/command-run.ts";

/** A daemon as a process of its own. */
export interface Running {
  readonly program: Program;
  readonly url: string;
  readonly port: number;
  readonly client: TaskClient;
  /** Ends it as a crash does. */
  kill(): Promise<void>;
}

/** A folder with a configuration, and with a database that has an account. */
export interface Place {
  readonly cwd: string;
  readonly file: string;
  readonly key: string;
  start(port?: number): Promise<Running>;
}

export async function openPlace(t: TestContext, toml = "", login = "tester"): Promise<Place> {
  const cwd = temporaryFolder(t);
  writeFileSync(join(cwd, "postbackd.toml"), toml);
  const file = join(cwd, "postbackd.db");
  const { key } = await createTestAccount(file, login);
  return {
    ...{ cwd, file, key },
    async start(wanted = 0) {
      const program = startProgram(t, ["start", "--port", String(wanted)], { cwd });
      const { url, port } = await program.ready;
      const kill = async (): Promise<void> => {
        program.kill("SIGKILL");
        assert.deepEqual(await program.exit, { code: null, signal: "SIGKILL" });
      };
      return { program, url, port, client: taskClient({ url, key }), kill };
    },
  };
}

/** The configuration of the type `hold`, whose command holds a connection to the test. */
export function holdType(
  { socketPath }: HeldProcesses,
  [script, ...args]: readonly [string, ...string[]] = ["hold.mjs"],
): string {
  return `[types.hold]\ncommand = ${JSON.stringify(node(script, socketPath, ...args))}\n`;
}
