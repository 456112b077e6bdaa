import { createSignInLink, secretsDocument } from "../admin/account.ts";
import { newWebhookSecret } from "../domain/account/key.ts";
import { StatusError } from "../domain/status.ts";
import { attemptDocument } from "../domain/webhook/delivery.ts";
import { inboxUrl } from "../domain/webhook/inbox.ts";
import { invalidField } from "../http/inputs.ts";
import type { OperationDeps } from "../http/operation-deps.ts";
import { type Operation, defineOperation } from "../http/operation.ts";
import type { AccountMaker } from "./account-maker.ts";
import type { SampleSender } from "./sample-sender.ts";

/** An account for each test. */
export function devAccounts(
  accounts: AccountMaker,
  { url }: Pick<OperationDeps, "url">,
): Operation {
  return defineOperation("POST /dev/accounts", {
    access: "developer",
    id: "makeAccount",
    summary: "Create an account",
    description:
      "Create one for each test, so that tests can run concurrently. For an existing login it returns another key.",
    codes: [40910],
    examples: { any: {}, named: { login: "alice" } },
    async handle({ body: { login } }) {
      const made = await accounts.make(login === null ? {} : { login });
      if (made === null) throw new StatusError(40910);
      const { webhookSecret, ...shown } = made;
      const inbox_url = inboxUrl(url(), made.login);
      return { fields: { ...shown, webhook_secret: webhookSecret, inbox_url } };
    },
  });
}

type Deps = Pick<OperationDeps, "store">;

/** Beginning and ending the rotation of a webhook secret. */
export function devSecrets(deps: Deps): readonly Operation[] {
  return [
    defineOperation("POST /dev/secrets/rotate", {
      access: "developer",
      id: "rotateTestSecret",
      summary: "Begin to replace a webhook secret",
      description:
        "From now on webhooks of the account are signed with both secrets: `X-Signature` with the current one, " +
        "`X-Signature-Next` with the next one.",
      examples: { standard: {} },
      async handle({ body: { login } }) {
        const outcome = await deps.store.rotateSecret({ login, next: newWebhookSecret() });
        if (outcome !== "already rotating") return { fields: await secretsOf(login, deps) };
        const detail =
          "The secret is already rotating: finish the rotation with POST /dev/secrets/finish first.";
        throw new StatusError(40000, { detail });
      },
    }),
    defineOperation("POST /dev/secrets/finish", {
      access: "developer",
      id: "finishTestRotation",
      summary: "End the rotation of a webhook secret",
      description: "Only the next secret signs from now on, and the old secret is erased.",
      examples: { standard: {} },
      async handle({ body: { login } }) {
        const outcome = await deps.store.finishRotation({ login });
        if (outcome !== "not rotating") return { fields: await secretsOf(login, deps) };
        const detail =
          "The secret is not rotating: begin a rotation with POST /dev/secrets/rotate.";
        throw new StatusError(40000, { detail });
      },
    }),
  ];
}

async function secretsOf(login: string, { store }: Deps) {
  const account = await store.findAccount(login);
  const data = account && (await store.findAccountData({ ...account, revokedMax: 0 }));
  if (data === null) {
    throw invalidField("login", "This account does not exist: create it with POST /dev/accounts.");
  }
  return secretsDocument(login, data);
}

/** Makes a link as the command line does, for any client: clients control this daemon anyway. */
export function devSignInLink(
  parts: Omit<Parameters<typeof createSignInLink>[0], "audit">,
): Operation {
  return defineOperation("POST /dev/sign_in_link", {
    access: "developer",
    id: "makeSignInLink",
    summary: "Create a sign-in link",
    description:
      "For the dashboard. Advancing the clock beyond the session's end ends the session.",
    async handle(call) {
      const audit = call.audit("session.link_made", null);
      const { token } = await createSignInLink({ ...parts, audit });
      return { fields: { token } };
    },
  });
}

/** Webhooks without a task. */
export function devWebhooks(samples: SampleSender): Operation {
  return defineOperation("POST /dev/webhooks", {
    access: "developer",
    id: "sendSample",
    summary: "Send a sample webhook",
    description:
      "Sends a webhook now, signed with the account's secret, and returns the attempt. Its task does not exist. Nothing is " +
      "recorded or retried, and ordered faults do not apply. A URL that task_post would refuse returns 40501.",
    examples: { postback: { url: "http://127.0.0.1:8080/done", kind: "postback" } },
    async handle({ body }) {
      const sent = await samples.send(body);
      if (sent.kind === "no account") {
        throw invalidField(
          "login",
          "This account does not exist: create it with POST /dev/accounts.",
        );
      }
      if (sent.kind === "refused") throw invalidField("url", sent.reason);
      return { fields: { task_id: sent.taskId, attempt: attemptDocument(sent.attempt) } };
    },
  });
}

/** Beginning again, between two tests. */
export function devReset(reset: () => Promise<number>): Operation {
  return defineOperation("POST /dev/reset", {
    access: "developer",
    id: "reset",
    summary: "Begin again",
    description:
      "Erases all tasks with their webhooks and stored responses, and all rules and faults. Attempts " +
      "in flight are cancelled. Accounts and the clock do not change.",
    examples: { all: {} },
    async handle() {
      return { fields: { tasks_erased: await reset() } };
    },
  });
}
