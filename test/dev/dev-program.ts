import assert from "node:assert/strict";
import type { TestContext } from "node:test";

import type { AnswerOf, OperationKey } from "../../src/api/operations.ts";
import { startProgram, type Program, type Ready } from "../helpers/program.ts";
import { taskClient, type TaskClient } from "../helpers/task-client.ts";

/** A daemon for development, and what its ready line says. */
export interface DevProgram extends Ready {
  readonly program: Program;
  readonly account: string;
  readonly key: string;
  readonly webhook_secret: string;
  readonly inbox_url: string;
  readonly dashboard_url: string;
  readonly tasks: TaskClient;
  /** Calls an operation, which must answer 200. `path` takes the place of what follows the method in its name. */
  call<Key extends OperationKey>(
    key: Key,
    given?: { readonly path?: string; readonly body?: object },
  ): Promise<AnswerOf<Key>>;
}

/** Starts `postbackd dev` on a free port, with a clock that stands still. */
export async function startDev(
  t: TestContext,
  args: readonly string[] = ["--clock", "manual"],
): Promise<DevProgram> {
  const program = startProgram(t, ["dev", "--port", "0", ...args]);
  // It has more fields than those of `start`.
  const ready = (await program.ready) as DevProgram;
  return {
    ...ready,
    program,
    tasks: taskClient(ready),
    async call(key, { path, body } = {}) {
      const [method = "", own = ""] = key.split(" ");
      const headers = { "content-type": "application/json" };
      const init =
        body === undefined ? { method } : { method, headers, body: JSON.stringify(body) };
      const response = await fetch(ready.url + (path ?? own), init);
      const text = await response.text();
      assert.equal(response.status, 200, text);
      return JSON.parse(text);
    },
  };
}
