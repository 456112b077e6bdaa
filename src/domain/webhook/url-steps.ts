import { parseUrlForm, rawAuthority, splitPort, withoutFragment } from "./url-form.ts";
import type { UrlForm } from "./url-form.ts";
import { substitutePlaceholders } from "./url-template.ts";
import type { PlaceholderValues } from "./url-template.ts";

/** A URL on its way from the posted text to the request. `step` tells what was done to get here. */
export interface UrlStep {
  readonly step: string;
  readonly url: string;
}

/**
 * How a posted URL, or a pingback's template with its values, becomes the one that is requested: the posted one first,
 * then each step that changed something. The last is the normal form, which a pingback's signature signs; a URL that
 * has none ends with its placeholders substituted. Each step after the substitution has the same normal form. Never
 * throws.
 */
export function urlSteps(raw: string, values: PlaceholderValues | null): readonly UrlStep[] {
  const substituted = values === null ? raw : substitutePlaceholders(raw, values);
  const form = parseUrlForm(substituted);
  const steps = [
    { step: "as posted", url: raw },
    { step: "$id and $tag substituted", url: substituted },
    ...(form.kind === "form" ? formSteps(substituted, form) : []),
  ];
  return steps.filter(({ url }, index) => index === 0 || url !== steps[index - 1]?.url);
}

// Part by part, each as it is in the normal form. The fragment comes last: a space before it belongs to the path, and
// would be trimmed without it.
function formSteps(raw: string, form: UrlForm): readonly UrlStep[] {
  const authority = rawAuthority(raw) ?? "";
  const [, port] = splitPort(authority);
  const rest = raw.slice(raw.indexOf("://") + "://".length + authority.length);
  const fragment = rest.slice(withoutFragment(rest).replace(/#$/, "").length);
  const hasPath = rest !== "" && !rest.startsWith("?") && !rest.startsWith("#");
  const path = hasPath
    ? "path and query encoded, dot segments resolved"
    : "path / added, query encoded";
  const base = `${form.scheme}://${form.authority}`;
  return [
    {
      step: "scheme and host in lower case, host in Punycode or as an address",
      url: `${form.scheme}://${form.hostname}${port}${rest}`,
    },
    { step: "port in decimal, default port dropped", url: base + rest },
    { step: path, url: base + form.requestTarget + fragment },
    { step: "fragment dropped", url: form.url },
  ];
}
