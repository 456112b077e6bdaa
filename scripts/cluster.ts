import { runCommands } from "./kit/command.ts";

const nodes = () => import("./cluster/rows.ts");
const network = () => import("./cluster/network-rows.ts");
const standbys = () => import("./cluster/standby-rows.ts");

/**
 * What several daemons on one PostgreSQL database must live through without losing anything, under load all the time:
 * each row is one way in which a daemon, the server or the network between them fails.
 */
await runCommands("node --import tsx scripts/cluster.ts", {
  "kill9-node": async () => (await nodes()).killNodes,
  "kill9-postgres": async () => (await nodes()).killServer,
  "stop-cont": async () => (await nodes()).stopNodes,
  "proxy-cut": async () => (await network()).cutConnections,
  "proxy-halt": async () => (await network()).haltNetwork,
  "proxy-loss": async () => (await network()).loseData,
  failover: async () => (await standbys()).failOver,
  "failover-async": async () => (await standbys()).failOverAsync,
  "standby-gone": async () => (await standbys()).loseStandby,
  "join-leave": async () => (await nodes()).joinAndLeave,
  "pinned-snapshot": async () => (await import("./cluster/pinned-snapshot.ts")).pinSnapshot,
  "revoke-key": async () => (await nodes()).revokeKey,
});
