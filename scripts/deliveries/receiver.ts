import { once } from "node:events";
import { createServer, type Socket } from "node:net";

import { z } from "zod";

import { HelperProcess, answerMessages } from "../kit/helper-process.ts";
import { HttpMessages } from "../kit/http-messages.ts";
import { toWebhook } from "../kit/webhook-receiver.ts";
import { Arrivals, arrivalReport, type ArrivalReport, type Measured } from "./arrivals.ts";

const behaviour = z.object({
  /** Addresses that answer 500. */
  failing: z.array(z.string()).readonly(),
  /** Addresses that take what is sent and never answer. */
  hanging: z.array(z.string()).readonly(),
  /** Addresses whose arrivals are not counted. */
  ignored: z.array(z.string()).readonly(),
});

/** What the hosts do; those that are not named answer 200 at once. */
export type Behaviour = Readonly<z.infer<typeof behaviour>>;

const order = z.discriminatedUnion("kind", [
  z.object({ kind: z.literal("open"), secret: z.string() }),
  z.object({
    kind: z.literal("measure"),
    measured: z.object({ from: z.number(), to: z.number(), retriesFrom: z.number() }),
  }),
  z.object({ kind: z.literal("behave"), behaviour }),
  z.object({ kind: z.literal("count") }),
  z.object({ kind: z.literal("report") }),
]);

const opened = z.object({ port: z.number() });
const counts = z.object({ fresh: z.number(), retries: z.number() });

const EVERYBODY_ANSWERS: Behaviour = { failing: [], hanging: [], ignored: [] };
const ANSWER = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";
const FAILURE = "HTTP/1.1 500 Internal Server Error\r\nContent-Length: 0\r\n\r\n";

/** Receivers on as many addresses of 127.0.0.0/8 as one likes, in one process of its own: each address is a host. */
export class ManyHosts {
  readonly #helper: HelperProcess;

  private constructor(helper: HelperProcess) {
    this.#helper = helper;
  }

  static start(): ManyHosts {
    return new ManyHosts(new HelperProcess(new URL(import.meta.url)));
  }

  /** Opens the hosts' port. `secret` is what webhooks must be signed with. */
  async open(secret: string): Promise<number> {
    return opened.parse(await this.#helper.ask({ kind: "open", secret })).port;
  }

  /** Counts from now on. */
  async measure({ from, to, retriesFrom }: Measured): Promise<void> {
    await this.#helper.ask({ kind: "measure", measured: { from, to, retriesFrom } });
  }

  /** From now on; an attempt that hangs already stays so. */
  async behave(how: Behaviour): Promise<void> {
    await this.#helper.ask({ kind: "behave", behaviour: how });
  }

  /** What has arrived of what is measured. */
  async count(): Promise<{ readonly fresh: number; readonly retries: number }> {
    return counts.parse(await this.#helper.ask({ kind: "count" }));
  }

  async report(): Promise<ArrivalReport> {
    return arrivalReport.parse(await this.#helper.ask({ kind: "report" }));
  }

  [Symbol.dispose](): void {
    this.#helper[Symbol.dispose]();
  }
}

interface Hosts {
  secret: string;
  arrivals: Arrivals;
  failing: ReadonlySet<string>;
  hanging: ReadonlySet<string>;
  ignored: ReadonlySet<string>;
}

function newHosts(): Hosts {
  const arrivals = new Arrivals("", { from: 0, to: 0, retriesFrom: 0 });
  return { secret: "", arrivals, ...toSets(EVERYBODY_ANSWERS) };
}

function toSets({ failing, hanging, ignored }: Behaviour): Omit<Hosts, "arrivals" | "secret"> {
  return { failing: new Set(failing), hanging: new Set(hanging), ignored: new Set(ignored) };
}

async function listen(hosts: Hosts): Promise<number> {
  const server = createServer({ noDelay: true }, (socket) => serve(socket, hosts));
  server.listen({ port: 0, host: "0.0.0.0", backlog: 4096 });
  await once(server, "listening");
  const address = server.address();
  if (address === null || typeof address === "string") throw new Error("no port to listen on");
  return address.port;
}

function serve(socket: Socket, hosts: Hosts): void {
  const host = socket.localAddress ?? "";
  const messages = new HttpMessages();
  let firstByteAt: number | null = null;
  socket.on("data", (chunk: Buffer) => {
    // Before anything is made of it, and the first of several chunks counts.
    firstByteAt ??= Date.now();
    const arrivedAt = firstByteAt;
    messages.read(chunk, (message) => {
      firstByteAt = null;
      const webhook = toWebhook(message);
      if (webhook === null) throw new Error(`what came is no webhook: ${message.head}`);
      if (!hosts.ignored.has(host)) hosts.arrivals.add(webhook, arrivedAt);
      if (hosts.hanging.has(host)) return;
      socket.write(hosts.failing.has(host) ? FAILURE : ANSWER);
    });
  });
  // A sender that gives an attempt up resets the connection.
  socket.on("error", () => socket.destroy());
}

function answerOrders(): void {
  const hosts = newHosts();
  answerMessages(async (message) => {
    const asked = order.parse(message);
    switch (asked.kind) {
      case "open":
        hosts.secret = asked.secret;
        return { port: await listen(hosts) };
      case "measure":
        hosts.arrivals = new Arrivals(hosts.secret, asked.measured);
        return {};
      case "behave":
        Object.assign(hosts, toSets(asked.behaviour));
        return {};
      case "count":
        return hosts.arrivals.counts;
      case "report":
        return hosts.arrivals.report;
    }
  });
}

if (import.meta.main) answerOrders();
