import { helperProcess } from "../kit/helper-process.ts";
import { EMPTY_ANSWERS, MessageServer } from "../kit/message-server.ts";
import { toWebhook } from "../kit/webhook-receiver.ts";
import { Arrivals, type ArrivalReport, type Measured } from "./arrivals.ts";

/** The behaviour of the hosts, by address; all others answer 200 at once. */
export interface Behaviour {
  /** Addresses that answer 500. */
  readonly failing: readonly string[];
  /** Addresses that accept requests and never answer. */
  readonly hanging: readonly string[];
  /** Addresses whose arrivals are not counted. */
  readonly ignored: readonly string[];
}

class Hosts {
  #secret = "";
  #arrivals = new Arrivals("", { from: 0, to: 0, retriesFrom: 0 });
  #behaviour: Behaviour = { failing: [], hanging: [], ignored: [] };

  /** Answers the hosts' port. Webhooks must be signed with this secret. */
  async open(secret: string): Promise<number> {
    this.#secret = secret;
    const { port } = await MessageServer.open(
      (message, { socket, firstByteAt }) => {
        const host = socket.localAddress ?? "";
        const webhook = toWebhook(message);
        if (webhook === null) throw new Error(`what came is no webhook: ${message.head}`);
        const { failing, hanging, ignored } = this.#behaviour;
        if (!ignored.includes(host)) this.#arrivals.add(webhook, firstByteAt);
        if (hanging.includes(host)) return;
        socket.write(EMPTY_ANSWERS[failing.includes(host) ? 500 : 200]);
      },
      { host: "0.0.0.0", backlog: 4096 },
    );
    return port;
  }

  /** Counts from now on. */
  measure(measured: Measured): void {
    this.#arrivals = new Arrivals(this.#secret, measured);
  }

  /** From now on; an attempt that hangs already stays so. */
  behave(behaviour: Behaviour): void {
    this.#behaviour = behaviour;
  }

  /** The measured webhooks that have arrived. */
  count(): { readonly fresh: number; readonly retries: number } {
    return this.#arrivals.counts;
  }

  report(): ArrivalReport {
    return this.#arrivals.report;
  }
}

/** Receivers on as many addresses of 127.0.0.0/8 as one likes, in one process of its own: each address is a host. */
export class ManyHosts extends helperProcess(import.meta, Hosts) {}
