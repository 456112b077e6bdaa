import { useState } from "preact/hooks";

import type { TimelineDelivery, TimelineTask } from "../../api/timeline.ts";
import { Button } from "../part/button.tsx";
import { Problem } from "../part/notice.tsx";
import { bytesText, countText } from "../shell/format.ts";
import { useSubmission } from "../shell/submission.ts";
import { CodeBlock } from "./code-block.tsx";
import { signedText } from "./sent-request.ts";
import { readTaskText } from "./task-text.ts";

interface SignedBytesProps {
  readonly task: TimelineTask;
  readonly delivery: TimelineDelivery;
}

/** The signed bytes: a postback's body, a pingback's URL. */
export function SignedBytes({ task, delivery }: SignedBytesProps) {
  const [loaded, setLoaded] = useState<string | null>(null);
  const submission = useSubmission();
  const { body } = delivery.request;
  const text = signedText(delivery) ?? loaded;
  const isBody = delivery.kind === "postback";
  const size = isBody ? body.bytes : new TextEncoder().encode(text ?? "").length;
  if (text !== null) {
    const what = isBody ? "signed body" : "signed URL";
    const title = `${isBody ? "Body" : "URL"}, exactly as signed: ${countText(size)} bytes`;
    return <CodeBlock title={title} text={text} what={what} />;
  }
  return (
    <div class="row">
      {submission.problem !== null && <Problem text={submission.problem} />}
      <span>The signed body has {countText(size)} bytes.</span>
      <Button
        isDisabled={submission.isBusy}
        press={() => submission.run(async () => setLoaded(await readTaskText(task)))}
      >
        Show the whole body ({bytesText(size)})
      </Button>
    </div>
  );
}
