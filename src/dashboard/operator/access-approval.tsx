import { useState } from "preact/hooks";

import type { AccessRequest, NewAccount } from "../../api/operator.ts";
import { FormDialog } from "../part/action-dialog.tsx";
import { call } from "../shell/api.ts";
import { LoginField } from "./login-field.tsx";

interface AccessApprovalProps {
  readonly request: AccessRequest;
  readonly close: () => void;
  readonly done: (account: NewAccount) => void;
}

/** Asks for the login of the requested account, and makes the account. */
export function AccessApproval({ request, close, done }: AccessApprovalProps) {
  const [login, setLogin] = useState(() => suggestedLogin(request.email));
  async function approve(): Promise<void> {
    const params = { request_id: request.id };
    const operation = "POST /v1/operator/access_requests/approve/:request_id";
    done(await call(operation, { params, body: { login } }));
  }
  return (
    <FormDialog
      title="Make the account"
      verb="Approve"
      otherwise="Let it wait"
      work={approve}
      close={close}
    >
      <p class="wraps">
        For <bdi>{request.email}</bdi>. You get the first key and the webhook secret. Nothing is
        sent, so hand them over yourself.
      </p>
      <LoginField login={login} change={setLogin} />
    </FormDialog>
  );
}

const LOGIN_LENGTH_MAX = 64;

/**
 * The text before the @, without a +tag and without characters that a login cannot have: `Ann.Lee+x@y.org` is
 * `ann.lee`.
 */
function suggestedLogin(email: string): string {
  const [local = ""] = email.toLowerCase().split(/[@+]/);
  return local.replaceAll(/[^a-z0-9._-]/g, "").slice(0, LOGIN_LENGTH_MAX);
}
