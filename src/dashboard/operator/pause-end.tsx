import type { DeliveryPause } from "../../api/delivery.ts";
import { scopeText } from "../../domain/webhook/delivery-pause.ts";
import { ActionDialog } from "../part/action-dialog.tsx";
import { call } from "../shell/api.ts";
import { countOf } from "../shell/format.ts";

interface PauseEndProps {
  readonly pause: DeliveryPause;
  readonly close: () => void;
  readonly done: () => void;
}

/** Asks before what is paused goes out. */
export function PauseEnd({ pause, close, done }: PauseEndProps) {
  const { login, host, waiting } = pause;
  const what = scopeText(pause);
  return (
    <ActionDialog
      title={`Resume ${what}?`}
      verb="Resume them"
      otherwise="Keep them paused"
      announcement={`Resumed: ${what}.`}
      work={() => call("POST /v1/operator/delivery_pauses/resume", { body: { login, host } })}
      close={close}
      done={done}
    >
      <p class="wraps">
        {waiting === null ? "What waits" : countOf(waiting, "waiting webhook")} will be sent, each
        in its turn and once it is due, unless another pause covers it. What is sent cannot be
        called back.
      </p>
    </ActionDialog>
  );
}
