<?php
// Receives postbacks at /postback and pingbacks at /pingback?id=$id.
//
// What is genuine and new becomes a file of the inbox before it is answered; the work is for whoever
// empties the inbox. PHP 8.1 or newer, nothing else. To try it: php -S 127.0.0.1:8080 receiver.php
declare(strict_types=1);

// More than a task's input and result may have together, as long as the daemon has its defaults.
// PHP's own limit, post_max_size, has to be as much: it is 8M unless you change it.
const BODY_BYTES_MAX = 8 * 1024 * 1024;

// Nothing but the status is for the sender; what goes wrong goes to the log.
ini_set('display_errors', '0');
// Not stored is no 2xx, so that it comes again: that is the status until all is done.
http_response_code(500);
http_response_code(receive());

function receive(): int
{
    // As it stands on the request line; $_GET is decoded.
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
    // The raw bytes, one more than allowed at most.
    $body = file_get_contents('php://input', false, null, 0, BODY_BYTES_MAX + 1);
    if (strlen($body) > BODY_BYTES_MAX) return 413;
    if (!isSigned($body)) return 401;
    // Only now is it worth parsing. What was signed came from postbackd and has its form.
    return accept('postback', json_decode($body)->tasks[0]->id, $body);
}

function receivePingback(string $target): int
{
    $url = publicUrl() . $target;
    if (!isSigned($url)) return 401;
    return accept('pingback', $_GET['id'] ?? '', $url);
}

/**
 * What the task's webhook URLs begin with, as the sender sees them. Never taken from Host or
 * X-Forwarded-*: whoever sends the request can write these.
 */
function publicUrl(): string
{
    $configured = (string) getenv('PUBLIC_URL');
    if ($configured !== '') return preg_replace('~/$~D', '', $configured);
    // For php -S, where both are those of the command line.
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
 * Keep the names for as long as something may come again, also when the work is done.
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
        // Of two at the same time one makes the name, and the other one fails.
        $isNew = @link($draft, "$inbox/$name");
        // The name too has to be on disk.
        if (!file_exists("$inbox/$name") || !fsync($file)) {
            throw new Exception("$inbox/$name cannot be made");
        }
        return $isNew;
    } finally {
        @unlink($draft);
    }
}
