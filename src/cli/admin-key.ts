import {
  createKey,
  finishRotation,
  keyDocument,
  revokeKey,
  rotateSecret,
  secretsDocument,
} from "../admin/account.ts";
import { KEY_LABEL, KEY_LABEL_MAX, KEY_PREFIX } from "../domain/account/account.ts";
import { ACTIVE_KEYS_MAX } from "../domain/account/key.ts";
import {
  defineAdminCommand,
  LOGIN_ARG,
  noAccount,
  ofAccount,
  type AdminParts,
} from "./admin-command.ts";
import { flag, TEXT, word } from "./arguments.ts";
import { defineCommand } from "./command.ts";
import { fail } from "./failure.ts";
import { type Answer, answer, factLines, newSecretLines, tableLines } from "./print.ts";

const NAME = "postbackd admin key";
const SECRET_NAME = "postbackd admin secret";

const create = defineAdminCommand({
  description: "Create another API key for an account",
  example: `${NAME} create alice --label ci`,
  notes: `An account has at most ${ACTIVE_KEYS_MAX} active keys.`,
  args: {
    ...LOGIN_ARG,
    label: flag(KEY_LABEL, `Purpose of the key; at most ${KEY_LABEL_MAX} characters`),
  },
  async run({ login, label }, parts) {
    const key = await createKey({ login, label }, parts);
    if (key === "no account") return noAccount(login);
    if (key === "limit reached") {
      const most = `account ${login} has ${ACTIVE_KEYS_MAX} active keys, which is the limit`;
      return fail(`${most}; revoke one first, with '${NAME} revoke KEY_ID'`);
    }
    const lines = newSecretLines({ login, key: key.key, key_id: key.key_id }, "key");
    return answer({ login, key }, ...lines);
  },
});

const list = defineAdminCommand({
  description: "List an account's keys, oldest first",
  example: `${NAME} list alice`,
  args: LOGIN_ARG,
  async run({ login }, { store }) {
    const keys = ofAccount(login, await store.listKeys(login)).map(keyDocument);
    return answer({ login, keys }, ...tableLines(keys));
  },
});

const revoke = defineAdminCommand({
  description: "Revoke a key, permanently; the next request with it is refused",
  example: `${NAME} revoke key_01980f2a4c7e7b3f9d20a1b2c3d4e5f6`,
  args: { key_id: word(TEXT, "Id of the key, from 'key list'") },
  async run({ key_id: keyId }, parts) {
    // The given text is not repeated: it may be the key itself, and messages end up in logs.
    const isKey = keyId.startsWith(KEY_PREFIX);
    const what = isKey ? "this is a key, not the id of a key" : "no key has this id";
    const key = keyDocument(
      (await revokeKey({ keyId, accountId: null }, parts)) ??
        fail(`${what}; '${NAME} list LOGIN' shows the ids`),
    );
    return answer({ key }, `Key ${keyId} is revoked since ${key.revoked_at}.`);
  },
});

export const keyCommand = defineCommand({
  description: "Create, list and revoke API keys",
  example: `${NAME} create alice --label ci`,
  subCommands: { create, list, revoke },
});

const show = defineAdminCommand({
  description: "Show the secrets that sign an account's webhooks",
  example: `${SECRET_NAME} show alice`,
  args: LOGIN_ARG,
  run: ({ login }, parts) => secretsAnswer(login, parts),
});

const rotate = defineAdminCommand({
  description: "Begin to replace an account's webhook secret",
  example: `${SECRET_NAME} rotate alice`,
  notes:
    "Webhooks are signed with both secrets until 'finish': X-Signature with the current one,\n" +
    "X-Signature-Next with the next one.",
  args: LOGIN_ARG,
  async run({ login }, parts) {
    const finishing = `'${SECRET_NAME} finish ${login}'`;
    if ((await rotateSecret(login, parts)) === "already rotating") {
      fail(
        `the secret of ${login} is already rotating; finish that rotation first, with ${finishing}`,
      );
    }
    const give =
      "Give the next secret to every receiver now; a receiver may accept both signatures.";
    return secretsAnswer(login, parts, "", give, `Then run ${finishing}.`);
  },
});

const finish = defineAdminCommand({
  description: "Sign with an account's next webhook secret only",
  example: `${SECRET_NAME} finish alice`,
  notes: "The old secret is erased. Do this when every receiver has the next secret.",
  args: LOGIN_ARG,
  async run({ login }, parts) {
    if ((await finishRotation(login, parts)) === "not rotating") {
      fail(
        `the secret of ${login} is not rotating; begin a rotation with '${SECRET_NAME} rotate ${login}'`,
      );
    }
    return secretsAnswer(login, parts, "", "Webhooks are signed with this secret only.");
  },
});

export const secretCommand = defineCommand({
  description: "Show and replace webhook secrets",
  example: `${SECRET_NAME} rotate alice`,
  subCommands: { show, rotate, finish },
});

async function secretsAnswer(
  login: string,
  { store, audit }: AdminParts,
  ...more: readonly string[]
): Promise<Answer> {
  const document = secretsDocument(login, ofAccount(login, await store.findSecrets(login)));
  await store.noteAudit(audit("secret.shown", login));
  return answer(document, ...factLines(document), ...more);
}
