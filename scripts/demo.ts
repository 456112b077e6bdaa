import { oneDaemonDemo } from "./demo/one-daemon.ts";
import { runScript } from "./kit/script.ts";

/** `npm run demo`. Whatever is not as it should be ends it with exit code 1 and the reason. */
await runScript(oneDaemonDemo);
