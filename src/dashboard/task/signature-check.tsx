import { useState } from "preact/hooks";

import type { TimelineDelivery } from "../../api/timeline.ts";
import { CopyButton } from "../part/copy-button.tsx";
import { Segments } from "../part/segments.tsx";
import { CodeBlock } from "./code-block.tsx";
import { signedText } from "./sent-request.ts";
import { SNIPPET_LANGUAGES, type SnippetLanguage, verifySnippet } from "./snippet.ts";

const LANGUAGES = SNIPPET_LANGUAGES.map((value) => ({ value, text: value }));

// A reader of one language reads it everywhere.
let preferred: SnippetLanguage = "TypeScript";

interface SignatureCheckProps {
  readonly taskId: string;
  readonly delivery: TimelineDelivery;
}

/** A program that checks this very signature, in the reader's language. */
export function SignatureCheck({ taskId, delivery }: SignatureCheckProps) {
  const [language, setLanguage] = useState(preferred);
  const snippet = verifySnippet(language, {
    origin: globalThis.location.origin,
    taskId,
    kind: delivery.kind,
    message: signedText(delivery),
    signature: delivery.request.signature,
  });
  return (
    <details class="sub">
      <summary>Verify this signature</summary>
      <div class="stack sub-body">
        <div class="row">
          <Segments
            label="Language"
            options={LANGUAGES}
            value={language}
            choose={(value) => {
              preferred = value;
              setLanguage(value);
            }}
          />
        </div>
        <CodeBlock title={snippet.file} text={snippet.text} what="program" />
        <p class="hint row">
          Run it with your webhook secret: <code>{snippet.command}</code>
          <CopyButton text={snippet.command} what="command" />
        </p>
        <p class="hint">
          These signatures are made with the account's present secret. Webhooks sent before a
          rotation carried signatures of the old one.
        </p>
        {delivery.request.signature_next !== null && (
          <p class="hint">
            The secret is being replaced: X-Signature is made with the old one, X-Signature-Next
            with the next one.
          </p>
        )}
      </div>
    </details>
  );
}
