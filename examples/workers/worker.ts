// A worker that sleeps as long as each task says, on the package's own library:
// POSTBACKD_URL=https://tasks.example.com POSTBACKD_TOKEN=pbd_work_... node worker.ts
import { setTimeout } from "node:timers/promises";

import { createWorker } from "postbackd/worker";

const { POSTBACKD_URL: url = "http://127.0.0.1:8787", POSTBACKD_TOKEN: token = "" } = process.env;

const worker = createWorker<{ sleep: { seconds: number } }>({
  url,
  token,
  types: {
    // Your own work; `signal` is aborted when nobody wants its result any more.
    async sleep({ input: { seconds } }, { signal }) {
      return setTimeout(seconds * 1000, { slept: seconds }, { signal });
    },
  },
  concurrency: 1, // tasks at once
  log: console,
});

process.once("SIGTERM", () => void worker.stop()); // tasks have 25 s to end, or are given back
await worker.run(); // until it is stopped, or the daemon refuses its token or its types
