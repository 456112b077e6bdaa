import type { UserData } from "../api/account.ts";
import { newWebhookSecret } from "../domain/account/account.ts";
import type { Store, WebhookSecrets } from "../store/store.ts";
import { defineAdminCommand, LOGIN_ARG, noAccount } from "./admin-command.ts";
import type { AdminStep } from "./admin-command.ts";
import type { Command } from "./command.ts";
import { CommandFailure } from "./failure.ts";
import { cellText } from "./print.ts";
import type { Answer } from "./print.ts";

const NAME = "postbackd admin secret";

const show = defineAdminCommand({
  name: `${NAME} show`,
  description: "Show the secrets that sign an account's webhooks",
  example: `${NAME} show alice`,
  args: LOGIN_ARG,
  plan: ({ login }) => showSecrets(login),
});

const rotate = defineAdminCommand({
  name: `${NAME} rotate`,
  description: "Begin to replace an account's webhook secret",
  example: `${NAME} rotate alice`,
  notes:
    "Webhooks are signed with both secrets until 'finish': X-Signature with the current one,\n" +
    "X-Signature-Next with the next one.",
  args: LOGIN_ARG,
  plan: ({ login }) => rotateSecret(login),
});

const finish = defineAdminCommand({
  name: `${NAME} finish`,
  description: "Sign with an account's next webhook secret only",
  example: `${NAME} finish alice`,
  notes: "The old secret is forgotten. Do this once every receiver knows the next one.",
  args: LOGIN_ARG,
  plan: ({ login }) => finishRotation(login),
});

/** `postbackd admin secret …`. */
export const secretCommand: Command = {
  name: NAME,
  description: "Show and replace webhook secrets",
  example: `${NAME} rotate alice`,
  subCommands: { show, rotate, finish },
};

function showSecrets(login: string): AdminStep {
  return async (store) => secretsAnswer(login, await readSecrets(store, login));
}

function rotateSecret(login: string): AdminStep {
  return async (store) => {
    const outcome = await store.rotateSecret({ login, next: newWebhookSecret() });
    if (outcome === "no account") throw noAccount(login);
    if (outcome === "already rotating") throw alreadyRotating(login);
    const { document, lines } = secretsAnswer(login, await readSecrets(store, login));
    return { document, lines: [...lines, "", ...rotationLines(login)] };
  };
}

function rotationLines(login: string): readonly string[] {
  return [
    "Give the next secret to every receiver now. Until the rotation is finished X-Signature keeps the",
    "current secret and X-Signature-Next carries the next one; a receiver may accept either. Then run",
    `'${NAME} finish ${login}': from there on X-Signature is made with the next secret alone.`,
  ];
}

function alreadyRotating(login: string): CommandFailure {
  return new CommandFailure(
    `the secret of ${login} is rotating already; ` +
      `finish that rotation first, with '${NAME} finish ${login}'`,
  );
}

function finishRotation(login: string): AdminStep {
  return async (store) => {
    const outcome = await store.finishRotation(login);
    if (outcome === "no account") throw noAccount(login);
    if (outcome === "not rotating") throw notRotating(login);
    const { document, lines } = secretsAnswer(login, await readSecrets(store, login));
    return { document, lines: [...lines, "", "Webhooks are signed with this secret only."] };
  };
}

function notRotating(login: string): CommandFailure {
  return new CommandFailure(
    `the secret of ${login} is not rotating; begin a rotation with '${NAME} rotate ${login}'`,
  );
}

async function readSecrets(store: Store, login: string): Promise<WebhookSecrets> {
  const secrets = await store.findSecrets(login);
  if (secrets === null) throw noAccount(login);
  return secrets;
}

function secretsAnswer(login: string, secrets: WebhookSecrets): Answer {
  const { webhookSecret, webhookSecretNext } = secrets;
  const document: Pick<UserData, "login" | "webhook_secret" | "webhook_secret_next"> = {
    login,
    webhook_secret: webhookSecret,
    webhook_secret_next: webhookSecretNext,
  };
  return {
    document,
    lines: [
      `login                ${login}`,
      `webhook_secret       ${webhookSecret}`,
      `webhook_secret_next  ${cellText(webhookSecretNext)}`,
    ],
  };
}
