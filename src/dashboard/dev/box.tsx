import { useState } from "preact/hooks";

import { ActionDialog } from "../part/action-dialog.tsx";
import { Button } from "../part/button.tsx";
import { CopyButton } from "../part/copy-button.tsx";
import { Empty, Loaded } from "../part/notice.tsx";
import { Panel, ScreenHead } from "../part/panel.tsx";
import { call } from "../shell/api.ts";
import { useResource } from "../shell/resource.ts";
import { hrefOf } from "../shell/route.ts";
import { AnswerForm } from "./answer-form.tsx";
import { Message } from "./message.tsx";

const POLL_MS = 2000;
// Each with its body, every two seconds.
const SHOWN_MAX = 50;

/** The newest messages of an inbox, and how it answers. */
export function BoxScreen({ box }: { readonly box: string }) {
  const [isEmptying, setEmptying] = useState(false);
  const params = { box };
  const query = { last: SHOWN_MAX };
  const messages = useResource(
    `inbox ${box}`,
    (load) => call("GET /dev/inbox/:box", { ...load, params, query }),
    { pollMs: POLL_MS },
  );
  const url = `${globalThis.location.origin}/inbox/${box}`;
  return (
    <>
      <ScreenHead title={`Inbox ${box}`}>
        <a href={hrefOf("/inbox")}>All boxes</a>
        <Button press={() => setEmptying(true)}>Empty it</Button>
      </ScreenHead>
      <div class="stack">
        <p class="row">
          <code>{url}</code>
          <CopyButton text={url} what="URL" />
        </p>
        <AnswerForm box={box} />
        <Loaded resource={messages}>
          {({ messages: all }) =>
            all.length === 0 ? (
              <Empty title="No messages" />
            ) : (
              <Panel title="Messages" note={`the newest ${SHOWN_MAX} at most`}>
                {all.toReversed().map((message) => (
                  <Message key={message.seq} message={message} />
                ))}
              </Panel>
            )
          }
        </Loaded>
      </div>
      {isEmptying && (
        <ActionDialog
          title={`Empty the inbox ${box}`}
          verb="Empty it"
          otherwise="Close"
          isDanger
          work={() => call("DELETE /dev/inbox/:box", { params })}
          announcement={`The inbox ${box} is empty.`}
          close={() => setEmptying(false)}
          done={messages.reload}
        >
          <p>Its messages go, and the answers that were set for it: it answers 200 again.</p>
        </ActionDialog>
      )}
    </>
  );
}
