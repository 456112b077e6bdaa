import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { join } from "node:path";
import { test } from "node:test";

import { ROOT } from "../../scripts/manifest.ts";
import { HAPROXY, HAPROXY_PROGRAM } from "./haproxy.ts";
import { areAtHand } from "./peer-process.ts";
import { exerciseServer } from "./server-peer.ts";

exerciseServer(HAPROXY);

test("HAProxy accepts deploy/haproxy.cfg", (t) => {
  if (!areAtHand(t, [HAPROXY_PROGRAM])) return;
  const nodes = ["NODE_1", "NODE_2", "NODE_3"].map((name, i) => [name, `127.0.0.1:${9000 + i}`]);
  const env = { ...process.env, BIND: "127.0.0.1:8999", ...Object.fromEntries(nodes) };
  const args = ["-c", "-f", join(ROOT, "deploy", "haproxy.cfg")];
  const { status, stderr } = spawnSync("haproxy", args, { env, encoding: "utf8" });

  assert.equal(status, 0, stderr);
});
