import { runCommands } from "./kit/command.ts";

const nodes = () => import("./cluster/rows.ts");
const network = () => import("./cluster/network-rows.ts");
const standbys = () => import("./cluster/standby-rows.ts");

/**
 * What several daemons on one PostgreSQL database must live through without losing anything, under load all the time:
 * each row is one way in which a daemon, the server or the network between them fails.
 */
await runCommands("node --import tsx scripts/cluster.ts", {
  "kill9-node": async () => ({ command: (await nodes()).killNodes }),
  "kill9-postgres": async () => ({ command: (await nodes()).killServer }),
  "stop-cont": async () => ({ command: (await nodes()).stopNodes }),
  "proxy-cut": async () => ({ command: (await network()).cutConnections }),
  "proxy-halt": async () => ({ command: (await network()).haltNetwork }),
  "proxy-loss": async () => ({ command: (await network()).loseData }),
  failover: async () => ({ command: (await standbys()).failOver }),
  "failover-async": async () => ({ command: (await standbys()).failOverAsync }),
  "standby-gone": async () => ({ command: (await standbys()).loseStandby }),
  "join-leave": async () => ({ command: (await nodes()).joinAndLeave }),
  "pinned-snapshot": async () => ({ command: (await nodes()).pinSnapshot }),
  "revoke-key": async () => ({ command: (await nodes()).revokeKey }),
});
