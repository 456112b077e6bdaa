import { Deed } from "../part/deed.tsx";
import { call } from "../shell/api.ts";
import type { AccessRequestRow } from "../shell/envelope.ts";

interface AccessDenialProps {
  readonly request: AccessRequestRow;
  readonly close: () => void;
  readonly done: () => void;
}

/** Asks before an access request is denied. */
export function AccessDenial({ request: { id, email }, close, done }: AccessDenialProps) {
  return (
    <Deed
      title="Deny this request?"
      verb="Deny it"
      otherwise="Let it wait"
      isDanger
      said="The access request is denied."
      work={() => call(`/v1/operator/access_requests/deny/${id}`, { method: "POST" })}
      close={close}
      done={done}
    >
      <p class="wraps">
        No account is made for <bdi>{email}</bdi>. Nothing is sent: tell them yourself.
      </p>
    </Deed>
  );
}
