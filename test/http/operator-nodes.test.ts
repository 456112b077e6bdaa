import assert from "node:assert/strict";
import { hostname } from "node:os";
import { test } from "node:test";

import { version } from "../../src/assets.ts";
import { startTestDaemon } from "../helpers/daemon.ts";
import { createFakeClock } from "../helpers/fake-clock.ts";
import { signInOperator } from "./operator-requests.ts";

const NOW = Date.parse("2030-01-31T09:00:00.000Z");
const TYPES = `
[types.hold]
command = ["/bin/sleep", "60"]
`;

test("a daemon with a file of its own is the one node, with every duty and what it runs", async (t) => {
  const clock = createFakeClock({ now: NOW });
  const daemon = await startTestDaemon(t, { clock, toml: TYPES });
  const operator = await signInOperator(daemon, NOW);
  const show = async () => (await operator.get("/nodes")).fields.nodes;
  await daemon.post([{ type: "hold" }]);
  // Posted and claimed in two commits: the request after them may come between.
  while ((await show())[0]?.running?.length === 0) continue;

  const [node, ...others] = await show();

  assert.deepEqual(others, []);
  const { id, ...shown } = node ?? assert.fail("no node");
  assert.match(id, /^[0-9a-f-]{36}$/);
  const at = "2030-01-31T09:00:00.000Z";
  assert.deepEqual(shown, {
    ...{ name: hostname(), version, url: daemon.url, answers: true },
    ...{ joined_at: at, last_seen_at: at, ended_at: null },
    duties: ["release", "reap", "orders", "sweep", "sample", "fold", "clock"],
    ...{ running: [{ type: "hold", runs: 1 }], sending: 0 },
  });
});
