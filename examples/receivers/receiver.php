<?php
// Receives postbacks at /postback and pingbacks at /pingback?id=$id.
//
// A genuine, new webhook becomes a file in the inbox before it is answered; the work is done later,
// from the inbox. PHP 8.1 or newer, nothing else. To try it: php -S 127.0.0.1:8080 receiver.php
declare(strict_types=1);

// More than a task's input and result can have together with the daemon's defaults.
// PHP's own limit, post_max_size, must be as large: it is 8M unless you change it.
const BODY_BYTES_MAX = 8 * 1024 * 1024;

// The sender gets only the status; errors go to the log.
ini_set('display_errors', '0');
// The status until all is done: what is not stored gets no 2xx, so that it comes again.
http_response_code(500);
http_response_code(receive());

function receive(): int
{
    // Exactly as on the request line; $_GET is decoded.
    $target = $_SERVER['REQUEST_URI'];
    [$path] = explode('?', $target, 2);
    return match ([$_SERVER['REQUEST_METHOD'], $path]) {
        ['POST', '/postback'] => receivePostback(),
        ['GET', '/pingback'] => receivePingback($target),
        default => 404,
    };
}

function receivePostback(): int
{
    // The raw bytes, at most one more than allowed.
    $body = file_get_contents('php://input', false, null, 0, BODY_BYTES_MAX + 1);
    if (strlen($body) > BODY_BYTES_MAX) return 413;
    if (!isSigned($body)) return 401;
    // Parse it only now: signed bytes came from postbackd and have its form.
    return accept('postback', json_decode($body)->tasks[0]->id, $body);
}

function receivePingback(string $target): int
{
    $url = publicUrl() . $target;
    if (!isSigned($url)) return 401;
    return accept('pingback', $_GET['id'] ?? '', $url);
}

/**
 * The beginning of the task's webhook URLs, as the sender sees them. Never taken from Host or
 * X-Forwarded-*: the sender of the request writes these.
 */
function publicUrl(): string
{
    $configured = (string) getenv('PUBLIC_URL');
    if ($configured !== '') return preg_replace('~/$~D', '', $configured);
    // For php -S, where both come from the command line.
    return "http://{$_SERVER['SERVER_NAME']}:{$_SERVER['SERVER_PORT']}";
}

/** Whether one of the secrets signed these bytes. */
function isSigned(string $message): bool
{
    // One secret, or several while one is being replaced.
    $secrets = preg_split('/[\s,]+/', getenv('WEBHOOK_SECRETS') ?: '', -1, PREG_SPLIT_NO_EMPTY);
    if ($secrets === []) throw new Exception('Set WEBHOOK_SECRETS to the webhook secret, whsec_…');
    // While a secret is being replaced, X-Signature-Next is made with the new one.
    $claims = [$_SERVER['HTTP_X_SIGNATURE'] ?? '', $_SERVER['HTTP_X_SIGNATURE_NEXT'] ?? ''];
    foreach ($secrets as $secret) {
        $expected = 'sha256=' . hash_hmac('sha256', $message, $secret);
        foreach ($claims as $claim) {
            if (hash_equals($expected, $claim)) return true;
        }
    }
    return false;
}

function accept(string $kind, mixed $id, string $content): int
{
    if (!is_string($id) || !preg_match('/^[0-9a-f-]{36}$/D', $id)) return 400;
    $isNew = store("$id.$kind", $content);
    error_log(($isNew ? 'new' : 'again') . " $kind $id");
    return 200;
}

/**
 * Puts a file on disk, whole or not at all. False when it is there already: the webhook came before.
 * Keep the names for as long as a webhook may come again, also when the work is done.
 */
function store(string $name, string $content): bool
{
    $inbox = getenv('INBOX') ?: 'inbox';
    if (!is_dir($inbox)) @mkdir($inbox, 0700, true);
    $draft = $inbox . '/.' . bin2hex(random_bytes(16));
    $file = fopen($draft, 'x');
    try {
        if ($file === false || fwrite($file, $content) !== strlen($content) || !fsync($file)) {
            throw new Exception("$draft cannot be written");
        }
        // Of two at the same time one makes the name, and the other fails.
        $isNew = @link($draft, "$inbox/$name");
        // The name must be on disk too.
        if (!file_exists("$inbox/$name") || !fsync($file)) {
            throw new Exception("$inbox/$name cannot be made");
        }
        return $isNew;
    } finally {
        @unlink($draft);
    }
}
