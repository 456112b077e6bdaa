import { StatusError } from "../../domain/status.ts";
import { inboxUrl } from "../../domain/webhook/inbox.ts";
import type { DevDesk } from "../dev-desk.ts";
import type { OperationDeps } from "../operation-deps.ts";
import { defineOperation, type Operation } from "../operation.ts";

/** An account for each test. */
export function devAccounts({ url }: Pick<OperationDeps, "url">, { accounts }: DevDesk): Operation {
  return defineOperation("POST /dev/accounts", {
    access: "developer",
    doc: {
      id: "makeAccount",
      group: "Development",
      summary: "Make an account",
      description:
        "One for each test, so that tests run side by side. For a login that is there: another key of it.",
      codes: [40910],
      examples: { any: {}, named: { login: "alice" } },
    },
    async handle({ body: { login } }) {
      const made = await accounts.make(login === null ? {} : { login });
      if (made === null) throw new StatusError(40910);
      const { webhookSecret, ...shown } = made;
      const inbox_url = inboxUrl(url(), made.login);
      return { fields: { ...shown, webhook_secret: webhookSecret, inbox_url } };
    },
  });
}
