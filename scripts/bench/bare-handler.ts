import { once } from "node:events";
import { createServer } from "node:http";

import { H3 } from "h3";
import { toNodeHandler } from "h3/node";
import { z } from "zod";

import { HelperProcess, answerMessages } from "../kit/helper-process.ts";

const serveOrder = z.object({ answer: z.string() });
const serving = z.object({ port: z.number() });

/**
 * What every ratio of the bench is to: an h3 handler on node:http, as postbackd's is, that parses the body of
 * a task_post and answers what task_post answered once. It checks no key, keeps nothing and waits for no disk.
 */
export class BareHandler {
  readonly #helper: HelperProcess;
  readonly port: number;

  private constructor(helper: HelperProcess, port: number) {
    this.#helper = helper;
    this.port = port;
  }

  /** Starts it in a process of its own; `answer` is what it always answers. */
  static async start(answer: string): Promise<BareHandler> {
    const helper = new HelperProcess(new URL(import.meta.url));
    const { port } = serving.parse(await helper.ask({ answer }));
    return new BareHandler(helper, port);
  }

  get pid(): number {
    return this.#helper.pid;
  }

  [Symbol.dispose](): void {
    this.#helper[Symbol.dispose]();
  }
}

async function serve(answer: string): Promise<{ port: number }> {
  const app = new H3();
  app.post("/v1/tasks/task_post", async (event) => {
    await event.req.json();
    // The headers that task_post answers with.
    event.res.headers.set("content-type", "application/json");
    event.res.headers.set("x-request-id", "01983c5e-7d5c-7000-8000-000000000000");
    event.res.headers.set("x-content-type-options", "nosniff");
    return answer;
  });
  const server = createServer(toNodeHandler(app)).listen(0, "127.0.0.1");
  await once(server, "listening");
  const address = server.address();
  if (address === null || typeof address === "string") throw new Error("no port to listen on");
  return { port: address.port };
}

if (import.meta.main) answerMessages((message) => serve(serveOrder.parse(message).answer));
