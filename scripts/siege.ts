import { runCommands } from "./kit/command.ts";

/** Measures what an account sees of postbackd while somebody else attacks it. */
await runCommands("node --import tsx scripts/siege.ts", {
  siege: () => import("./siege/command.ts"),
});
