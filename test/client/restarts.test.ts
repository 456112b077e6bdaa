import assert from "node:assert/strict";
import { join } from "node:path";
import { test } from "node:test";

import { createClient } from "../../src/client/client.ts";
import { createTestAccount } from "../helpers/daemon.ts";
import { findFreePort } from "../helpers/port.ts";
import { startProgram, temporaryFolder, type Program } from "../helpers/program.ts";
import { all } from "./start.ts";

const TASKS = 3000;
const KILLS = 5;
/** The pages of 100 tasks between two kills. */
const EACH = 6;

test("postMany posts 3,000 tasks exactly once although the daemon is killed and restarted five times", async (t) => {
  const cwd = temporaryFolder(t);
  const { key } = await createTestAccount(join(cwd, "postbackd.db"));
  const port = await findFreePort();
  const start = (): Program => startProgram(t, ["start", "--port", String(port)], { cwd });
  let program = start();
  await program.ready;
  const restart = async (): Promise<void> => {
    program.kill("SIGKILL");
    await program.exit;
    program = start();
  };
  let posts = 0;
  let kills = 0;
  const client = createClient({
    url: `http://127.0.0.1:${port}`,
    key,
    retries: 12,
    async fetch(input, init) {
      const answer = fetch(input, init);
      // In the middle of each fifth of the pages; no retry after a kill is cut off.
      if (init?.method !== "POST" || ++posts % EACH !== EACH / 2 || kills === KILLS) return answer;
      kills++;
      // Before every other kill the page is committed, and its response is lost.
      const isCommitted = kills % 2 === 0;
      if (isCommitted) await answer;
      void restart();
      if (isCommitted) throw new TypeError("the response is lost");
      return answer;
    },
  });
  const tasks = Array.from({ length: TASKS }, (_, n) => ({ input: n }));

  const posted = await client.tasks.postMany(tasks);

  await program.ready;
  const listed = await all(client.tasks.list());
  assert.equal(kills, KILLS);
  assert.deepEqual(
    posted.map(({ data }) => data["input"]),
    Array.from({ length: TASKS }, (_, n) => n),
  );
  assert.deepEqual(listed.map(({ id }) => id).toSorted(), posted.map(({ id }) => id).toSorted());
  assert.equal(new Set(posted.map(({ id }) => id)).size, TASKS);
});
