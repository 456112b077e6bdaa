import { createServer } from "node:http";

import { H3 } from "h3";
import { toNodeHandler } from "h3/node";

import { helperProcess } from "../kit/helper-process.ts";
import { listen } from "../kit/receiver.ts";

class Handler {
  /** Responds `answer` to every task_post. Returns its port. */
  serve(answer: string): Promise<number> {
    const app = new H3();
    app.post("/v1/tasks/task_post", async (event) => {
      await event.req.json();
      // The headers of task_post's responses.
      event.res.headers.set("content-type", "application/json");
      event.res.headers.set("x-request-id", "01983c5e-7d5c-7000-8000-000000000000");
      event.res.headers.set("x-content-type-options", "nosniff");
      return answer;
    });
    return listen(createServer(toNodeHandler(app)));
  }
}

/**
 * The base of every ratio: an h3 handler on node:http, as postbackd's is, that parses the body of a task_post and sends
 * a response of task_post. It checks no key, stores nothing and waits for no disk. In a process of its own.
 */
export class BareHandler extends helperProcess(import.meta, Handler) {}
