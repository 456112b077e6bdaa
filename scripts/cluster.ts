import { runCommands } from "./kit/command.ts";

/**
 * What several daemons on one PostgreSQL database must live through without losing anything, under load all the time:
 * each row is one way in which a daemon, the server or the network between them fails.
 */
await runCommands("node --import tsx scripts/cluster.ts", {
  "kill9-node": async () => ({ command: (await import("./cluster/rows.ts")).killNodes }),
  "kill9-postgres": async () => ({ command: (await import("./cluster/rows.ts")).killServer }),
  "stop-cont": async () => ({ command: (await import("./cluster/rows.ts")).stopNodes }),
  "proxy-cut": async () => ({ command: (await import("./cluster/rows.ts")).cutConnections }),
  "proxy-halt": async () => ({ command: (await import("./cluster/rows.ts")).haltNetwork }),
  failover: async () => ({ command: (await import("./cluster/rows.ts")).failOver }),
  "standby-gone": async () => ({ command: (await import("./cluster/rows.ts")).loseStandby }),
  "join-leave": async () => ({ command: (await import("./cluster/rows.ts")).joinAndLeave }),
  "pinned-snapshot": async () => ({ command: (await import("./cluster/rows.ts")).pinSnapshot }),
});
