import type { AccessRequest } from "../../api/operator.ts";
import { ActionDialog } from "../part/action-dialog.tsx";
import { call } from "../shell/api.ts";

interface AccessDenialProps {
  readonly request: AccessRequest;
  readonly close: () => void;
  readonly done: () => void;
}

/** Asks before an access request is denied. */
export function AccessDenial({ request: { id, email }, close, done }: AccessDenialProps) {
  return (
    <ActionDialog
      title="Deny this request?"
      verb="Deny it"
      otherwise="Let it wait"
      isDanger
      announcement="The access request is denied."
      work={() =>
        call("POST /v1/operator/access_requests/deny/:request_id", { params: { request_id: id } })
      }
      close={close}
      done={done}
    >
      <p class="wraps">
        No account is made for <bdi>{email}</bdi>. Nothing is sent, so tell them yourself.
      </p>
    </ActionDialog>
  );
}
