import { percentText } from "../shell/format.ts";

interface QuotaProps {
  readonly used: number;
  /** 0 means no limit. */
  readonly limit: number;
  readonly textOf: (count: number) => string;
}

// From here on an account should learn of it, before its posts are refused.
const FULL_SHARE = 0.9;

/** How much of a limit is used: `1.2 MiB of 10.0 GiB`, and quieter where there is no limit. */
export function Quota({ used, limit, textOf }: QuotaProps) {
  if (limit === 0) {
    return (
      <>
        {textOf(used)} <span class="hint">no limit</span>
      </>
    );
  }
  const share = used / limit;
  const text = `of ${textOf(limit)}`;
  return (
    <span title={`${percentText(share)} used`}>
      {share >= FULL_SHARE ? <b>{textOf(used)}</b> : textOf(used)} <span class="hint">{text}</span>
    </span>
  );
}
