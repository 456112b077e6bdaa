import { oneDaemonDemo } from "./demo/one-daemon.ts";
import { runScript } from "./kit/script.ts";

/** `npm run demo`. Ends with exit code 1 and the reason if a check fails. */
await runScript(oneDaemonDemo);
