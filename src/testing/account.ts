import type { Answers, Bodies } from "../client/api.ts";
import { createClient, type Client } from "../client/client.ts";
import type { Transport } from "../client/transport.ts";
import type { AnyTypes, TaskTypes } from "../domain/task/function.ts";
import { inboxOf, type Inbox } from "./inbox.ts";

/** A webhook without a task. */
export type Sample = Omit<Bodies["POST /dev/webhooks"], "login">;
/** Its end. */
export type SentSample = Answers["POST /dev/webhooks"]["attempt"];

/** An account for one test, which none of the others sees. */
export interface TestAccount<Types extends TaskTypes<Types> = AnyTypes> {
  readonly login: string;
  readonly key: string;
  /** For `verifyPostback` and `verifyPingback` of `postbackd/verify`. */
  readonly webhookSecret: string;
  readonly client: Client<Types>;
  /** A receiver of the daemon's own. All accounts share the inboxes of a name; the account's login unless given. */
  inbox(name?: string): Inbox;
  /** Sends one signed webhook without a task now, and returns its outcome. */
  webhook(sample: Sample): Promise<SentSample>;
  /** Starts to replace the webhook secret, and returns the next secret: from now on both sign. */
  rotateSecret(): Promise<string>;
  /** Ends that: the next secret signs alone. */
  finishRotation(): Promise<void>;
}

export interface AccountPlace {
  /** Base URL of the daemon. */
  readonly url: string;
  /** The runtime's own unless given. */
  readonly fetch?: typeof globalThis.fetch | undefined;
  /** The account's; one of its own unless given. */
  readonly login?: string | undefined;
}

/** Creates an account, or another key of an existing account. */
export async function makeAccount<Types extends TaskTypes<Types>>(
  transport: Transport,
  { login: wanted, ...place }: AccountPlace,
): Promise<TestAccount<Types>> {
  const made = await transport.call("POST /dev/accounts", { body: { login: wanted } });
  const { login, key, webhook_secret: webhookSecret, inbox_url: inboxUrl } = made;
  const body = { login };
  return {
    login,
    key,
    webhookSecret,
    client: createClient({ ...place, key }),
    // As the daemon sees itself: in a container it has another address than from outside.
    inbox: (box = login) => inboxOf(transport, { box, url: new URL(box, inboxUrl).href }),
    webhook: async (sample) =>
      (await transport.call("POST /dev/webhooks", { body: { ...sample, login } })).attempt,
    async rotateSecret() {
      const { webhook_secret_next: next } = await transport.call("POST /dev/secrets/rotate", {
        body,
      });
      if (next === null)
        throw new TypeError("The response of the daemon does not have the next secret.");
      return next;
    },
    async finishRotation() {
      await transport.call("POST /dev/secrets/finish", { body });
    },
  };
}
