import { secretsDocument } from "../../admin/account.ts";
import { newWebhookSecret } from "../../domain/account/key.ts";
import { StatusError } from "../../domain/status.ts";
import { invalidField } from "../fields.ts";
import type { OperationDeps } from "../operation-deps.ts";
import { defineOperation, type Operation } from "../operation.ts";

type Deps = Pick<OperationDeps, "store">;

/** Beginning and ending the rotation of a webhook secret. */
export function devSecrets(deps: Deps): readonly Operation[] {
  return [
    defineOperation("POST /dev/secrets/rotate", {
      access: "developer",
      doc: {
        id: "rotateTestSecret",
        group: "Development",
        summary: "Begin to replace a webhook secret",
        description:
          "From now on webhooks of the account are signed with both secrets: `X-Signature` with the current one, " +
          "`X-Signature-Next` with the next one.",
        examples: { standard: {} },
      },
      async handle({ body: { login } }) {
        const outcome = await deps.store.rotateSecret({ login, next: newWebhookSecret() });
        if (outcome !== "already rotating") return { fields: await secretsOf(login, deps) };
        const detail =
          "The secret is rotating already: finish that with POST /dev/secrets/finish first.";
        throw new StatusError(40000, { detail });
      },
    }),
    defineOperation("POST /dev/secrets/finish", {
      access: "developer",
      doc: {
        id: "finishTestRotation",
        group: "Development",
        summary: "End the replacing of a webhook secret",
        description: "The next secret signs alone from now on, and the one before it is forgotten.",
        examples: { standard: {} },
      },
      async handle({ body: { login } }) {
        const outcome = await deps.store.finishRotation({ login });
        if (outcome !== "not rotating") return { fields: await secretsOf(login, deps) };
        const detail = "The secret is not rotating: begin that with POST /dev/secrets/rotate.";
        throw new StatusError(40000, { detail });
      },
    }),
  ];
}

async function secretsOf(login: string, { store }: Deps) {
  const account = await store.findAccount(login);
  const data = account && (await store.findAccountData({ ...account, revokedMax: 0 }));
  if (data === null) {
    throw invalidField("login", "There is no such account: make it with POST /dev/accounts.");
  }
  return secretsDocument(login, data);
}
