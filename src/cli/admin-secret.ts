import type { UserData } from "../api/account.ts";
import { newWebhookSecret } from "../domain/account/account.ts";
import type { Store } from "../store/store.ts";
import { defineAdminCommand, LOGIN_ARG, noAccount } from "./admin-command.ts";
import { defineCommand } from "./command.ts";
import { CommandFailure } from "./failure.ts";
import { cellText, type Answer } from "./print.ts";
import { byCommand } from "./user.ts";

const NAME = "postbackd admin secret";

const show = defineAdminCommand({
  description: "Show the secrets that sign an account's webhooks",
  example: `${NAME} show alice`,
  args: LOGIN_ARG,
  run: ({ login }, { store }) => secretsAnswer(login, store),
});

const rotate = defineAdminCommand({
  description: "Begin to replace an account's webhook secret",
  example: `${NAME} rotate alice`,
  notes:
    "Webhooks are signed with both secrets until 'finish': X-Signature with the current one,\n" +
    "X-Signature-Next with the next one.",
  args: LOGIN_ARG,
  async run({ login }, { store }) {
    const outcome = await store.rotateSecret({
      login,
      next: newWebhookSecret(),
      audit: byCommand("secret.rotated", login),
    });
    if (outcome === "no account") throw noAccount(login);
    if (outcome === "already rotating") {
      throw new CommandFailure(
        `the secret of ${login} is rotating already; ` +
          `finish that rotation first, with '${NAME} finish ${login}'`,
      );
    }
    return secretsAnswer(login, store, [
      "Give the next secret to every receiver now. Until the rotation is finished X-Signature keeps the",
      "current secret and X-Signature-Next carries the next one; a receiver may accept either. Then run",
      `'${NAME} finish ${login}': from there on X-Signature is made with the next secret alone.`,
    ]);
  },
});

const finish = defineAdminCommand({
  description: "Sign with an account's next webhook secret only",
  example: `${NAME} finish alice`,
  notes: "The old secret is forgotten. Do this once every receiver knows the next one.",
  args: LOGIN_ARG,
  async run({ login }, { store }) {
    const outcome = await store.finishRotation({
      login,
      audit: byCommand("secret.finished", login),
    });
    if (outcome === "no account") throw noAccount(login);
    if (outcome === "not rotating") {
      throw new CommandFailure(
        `the secret of ${login} is not rotating; begin a rotation with '${NAME} rotate ${login}'`,
      );
    }
    return secretsAnswer(login, store, ["Webhooks are signed with this secret only."]);
  },
});

export const secretCommand = defineCommand({
  description: "Show and replace webhook secrets",
  example: `${NAME} rotate alice`,
  subCommands: { show, rotate, finish },
});

async function secretsAnswer(
  login: string,
  store: Store,
  more: readonly string[] = [],
): Promise<Answer> {
  const secrets = await store.findSecrets(login);
  if (secrets === null) throw noAccount(login);
  await store.noteAudit(byCommand("secret.shown", login));
  const { webhookSecret, webhookSecretNext } = secrets;
  const document: Pick<UserData, "login" | "webhook_secret" | "webhook_secret_next"> = {
    login,
    webhook_secret: webhookSecret,
    webhook_secret_next: webhookSecretNext,
  };
  const lines = [
    `login                ${login}`,
    `webhook_secret       ${webhookSecret}`,
    `webhook_secret_next  ${cellText(webhookSecretNext)}`,
  ];
  return { document, lines: more.length === 0 ? lines : [...lines, "", ...more] };
}
