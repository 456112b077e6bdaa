import { runCommands } from "./kit/command.ts";

/** How late webhooks come when receivers hang, when many deliveries have failed, and when many retries are due. */
await runCommands("node --import tsx scripts/deliveries.ts", {
  deliveries: () => import("./deliveries/command.ts"),
});
