package wire

// Webhook is where events are delivered to (S52).
type Webhook struct {
	WebhookID  string    `json:"webhook_id"`
	URL        string    `json:"url"`
	Secret     string    `json:"secret,omitzero"` // only in the answers that make one
	EventTypes []string  `json:"event_types"`
	Status     string    `json:"status"` // active or disabled
	CreatedAt  Timestamp `json:"created_at"`
}

// Delivery is an attempt to deliver an event.
type Delivery struct {
	DeliveryID    string     `json:"delivery_id"`
	WebhookID     string     `json:"webhook_id"`
	EventID       string     `json:"event_id"`
	EventType     string     `json:"event_type"`
	Sequence      int64      `json:"sequence"`
	Attempt       int        `json:"attempt"`
	Timestamp     Timestamp  `json:"timestamp"`
	DurationMS    int64      `json:"duration_ms"`
	Delivered     bool       `json:"delivered"`
	StatusCode    int        `json:"status_code,omitempty" wire:"null"`
	Error         string     `json:"error,omitempty" wire:"null"`
	NextAttemptAt *Timestamp `json:"next_attempt_at" wire:"null"`
}

// Retried says how many deliveries are tried again.
type Retried struct {
	WebhookID string `json:"webhook_id"`
	Retried   int    `json:"retried"`
}
