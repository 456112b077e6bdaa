import { defineCommand } from "./command.ts";
import { loadCommandConfig, settingArgs } from "./settings.ts";

export const startCommand = defineCommand({
  description: "Serve: accept tasks, run them, send their webhooks",
  example: "postbackd start --db /var/lib/postbackd/postbackd.db --port 8787",
  notes:
    "When it is ready, stdout gets one line of JSON; logs go to stderr. SIGTERM and SIGINT stop it\n" +
    "after the work under way, within 25 seconds; a second one at once. Every flag is also a variable\n" +
    "(--db is POSTBACKD_DB) and most are keys of postbackd.toml; flags come first, the file last. A URL\n" +
    "with a password is better in a file that POSTBACKD_DB_FILE names: flags are seen by all users.",
  args: settingArgs(),
  async run(given) {
    const config = loadCommandConfig(given);
    const { serve } = await import("./serve.ts");
    await serve(config);
  },
});
