import type { DeliveryHold } from "../../api/delivery-hold.ts";
import { scopeText } from "../../domain/webhook/delivery-hold.ts";
import { ActionDialog } from "../part/action-dialog.tsx";
import { call } from "../shell/api.ts";
import { countOf } from "../shell/format.ts";

interface HoldReleaseProps {
  readonly hold: DeliveryHold;
  readonly close: () => void;
  readonly done: () => void;
}

/** Asks before what is held goes out. */
export function HoldRelease({ hold, close, done }: HoldReleaseProps) {
  const { login, host, waiting } = hold;
  const what = scopeText(hold);
  return (
    <ActionDialog
      title={`Release ${what}?`}
      verb="Release them"
      otherwise="Keep them held"
      announcement={`Released: ${what}.`}
      work={() => call("POST /v1/operator/delivery_holds/release", { body: { login, host } })}
      close={close}
      done={done}
    >
      <p class="wraps">
        {waiting === null ? "What waits" : countOf(waiting, "waiting webhook")} will be sent, each
        in its turn and once it is due, unless another hold covers it. What is sent cannot be called
        back.
      </p>
    </ActionDialog>
  );
}
