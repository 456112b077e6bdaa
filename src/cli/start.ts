import type { ConfigVerdict } from "../config/config.ts";
import { unknownNameMessage } from "../config/layer.ts";
import { toggle } from "./arguments.ts";
import { defineCommand } from "./command.ts";
import { configOf, judgeServingConfig, settingArgs } from "./settings.ts";

export const startCommand = defineCommand({
  description: "Serve: accept tasks, run them, send their webhooks",
  example: "postbackd start --db /var/lib/postbackd/postbackd.db --port 8787",
  notes:
    "When it is ready, stdout gets one line of JSON; logs go to stderr. SIGTERM and SIGINT stop it\n" +
    "after the work in progress, within 25 seconds; a second one immediately. Every setting is also a variable\n" +
    "(--db is POSTBACKD_DB) and most are keys of postbackd.toml. Precedence: flags, variables, file. A URL\n" +
    "with a password is better in a file that POSTBACKD_DB_FILE names: flags are seen by all users.\n" +
    "On a copy of a database --pause-deliveries keeps the webhooks that wait there from being sent a second time:\n" +
    "they are paused, also after a restart, until 'admin delivery resume'.",
  args: {
    ...settingArgs(),
    "pause-deliveries": toggle(
      "Pause all webhooks before the first is sent, until 'admin delivery resume'",
    ),
  },
  unknownFlag: (flag, others) => unknownNameMessage(flag, { what: "flag", others }),
  async run(given) {
    const readAgain = (): ConfigVerdict => judgeServingConfig(given);
    const config = configOf(readAgain());
    const { serve } = await import("./serve.ts");
    await serve(config, { pausesDeliveries: given["pause-deliveries"], readAgain });
  },
});
