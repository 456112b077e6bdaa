import { parseServerAddress } from "../../../src/store/postgres/machine/server-address.ts";
import { openPostgresStore } from "../../../src/store/postgres/postgres-store.ts";

/**
 * A process that is a node of a database, to be stopped or killed by a test: given the URL and the time between
 * heartbeats, it says its id, and after each time that it was stopped whether it is a member then.
 */

const [url = "", beatMs = ""] = process.argv.slice(2);
const store = await openPostgresStore({
  server: parseServerAddress(url),
  kind: "node",
  node: { name: "process", url: null, version: "0" },
  notify: false,
  backlogMax: 100,
  beatMs: Number(beatMs),
});
say(store.cluster.self);

let lastAt = performance.now();
setInterval(() => {
  // One reading: between two of them a stop would go unnoticed.
  const now = performance.now();
  const wasStopped = now - lastAt > 2000;
  lastAt = now;
  if (wasStopped) say(store.cluster.isMember() ? "member" : "no member");
}, 5);

function say(line: string): void {
  process.stdout.write(`${line}\n`);
}
