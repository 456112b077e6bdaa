import { createHmac } from "node:crypto";

import { Agent } from "undici";

import { envelopeText } from "./api.mjs";

/** Signed postbacks by undici: a connection for each that is under way at a time. */
export class Webhooks {
  #secret;
  #agent;

  constructor({ secret, concurrency }) {
    this.#secret = secret;
    this.#agent = new Agent({ connections: concurrency });
  }

  /** What every worker does: the task's result is its input, and goes to its URL. Rejects unless that answers 2xx. */
  async run({ id, type, input, postback_url: url }) {
    const task = { id, status_code: 20000, type, completed_at: new Date().toISOString() };
    const body = envelopeText([{ ...task, result: input }]);
    const { origin, pathname: path } = new URL(url);
    const signature = createHmac("sha256", this.#secret).update(body).digest("hex");
    const headers = {
      "content-type": "application/json",
      "webhook-id": `${id}-postback`,
      "x-signature": `sha256=${signature}`,
    };
    const answer = await this.#agent.request({ origin, path, method: "POST", headers, body });
    await answer.body.dump();
    if (answer.statusCode > 299) throw new Error(`the receiver answered ${answer.statusCode}`);
  }
}
